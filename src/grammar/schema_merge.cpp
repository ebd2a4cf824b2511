// Collecting the parts of an allOf, and joining them keyword by keyword.
#include "grammar/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "grammar/schema_values.h"

namespace fulmar {
namespace {

constexpr int kMaxDepth = 32;  // of allOf and references within each other

class SchemaMerge {
 public:
  SchemaMerge(const JsonValue& document, Budget& budget) : document_(document), budget_(budget) {}

  Result<JsonValue> merge(const JsonValue& schema) {
    FULMAR_TRY(add(schema, 0));
    std::vector<JsonObject::Member> members;
    for (std::string& keyword : order_) {
      JsonValue value = std::move(values_.at(keyword));
      members.emplace_back(std::move(keyword), std::move(value));
    }
    return JsonValue(JsonObject(std::move(members)));
  }

 private:
  static Error unjoined(std::string_view keyword) {
    return {ErrorKind::unsupported,
            fmt::format("holds schemas of which '{}' cannot be joined", keyword.substr(0, 64))};
  }

  Status add(const JsonValue& schema, int depth) {
    if (depth > kMaxDepth) {
      return Error{ErrorKind::unsupported, fmt::format("is nested more than {} deep", kMaxDepth)};
    }
    FULMAR_TRY(budget_.take(Budget::Item::work));
    if (!added_.insert(&schema).second) return {};  // asking twice is asking once
    if (schema.is_bool() && schema.as_bool()) return {};
    if (!schema.is_object()) return unjoined(schema.is_bool() ? "false" : "allOf");
    for (const auto& [keyword, value] : schema.as_object().members()) {
      if (keyword == "$defs" || keyword == "definitions") continue;  // the document has them
      if (keyword == "$ref") {
        FULMAR_ASSIGN(const JsonValue* meant, find_reference(document_, value));
        FULMAR_TRY(add(*meant, depth + 1));
      } else if (keyword == "allOf") {
        if (!value.is_array()) return unjoined(keyword);
        for (const JsonValue& part : value.as_array()) FULMAR_TRY(add(part, depth + 1));
      } else {
        FULMAR_TRY(budget_.take(Budget::Item::work, json_text(value).size() + 1));
        FULMAR_TRY(add_keyword(keyword, value));
      }
    }
    return {};
  }

  Status add_keyword(const std::string& keyword, const JsonValue& value) {
    if (keyword == "pattern" && !value.is_string()) return unjoined(keyword);
    const auto [found, fresh] = values_.emplace(keyword, value);
    if (fresh) {
      order_.push_back(keyword);
      return {};
    }
    const std::string before = json_text(found->second);
    FULMAR_TRY(budget_.take(Budget::Item::work, before.size()));
    if (before == json_text(value)) return {};
    FULMAR_ASSIGN(found->second, joined(keyword, found->second, value));
    return {};
  }

  Result<JsonValue> joined(std::string_view keyword, const JsonValue& one, const JsonValue& other) {
    static const std::set<std::string_view> lower = {"minimum", "exclusiveMinimum", "minLength", "minItems",
                                                     "minProperties"};
    static const std::set<std::string_view> upper = {"maximum", "exclusiveMaximum", "maxLength", "maxItems",
                                                     "maxProperties"};
    static const std::set<std::string_view> words = {"title",    "description", "default", "example",
                                                     "examples", "$schema",     "$id",     "$comment"};
    if (words.contains(keyword) || keyword.starts_with("x-")) return one;
    if ((lower.contains(keyword) || upper.contains(keyword)) && one.is_number() && other.is_number()) {
      const bool other_counts = (other.as_double() > one.as_double()) == lower.contains(keyword);
      return other_counts ? other : one;
    }
    if (keyword == "type") return common_types(one, other);
    if (keyword == "pattern" || keyword == "required") return listed(one, other);
    if (keyword == "properties" && one.is_object() && other.is_object()) return all_properties(one, other);
    return unjoined(keyword);
  }

  static JsonValue::Array as_list(const JsonValue& value) {
    return value.is_array() ? value.as_array() : JsonValue::Array{value};
  }

  static JsonValue listed(const JsonValue& one, const JsonValue& other) {
    JsonValue::Array all = as_list(one);
    for (const JsonValue& value : as_list(other)) all.push_back(value);
    return JsonValue(std::move(all));
  }

  static Result<JsonValue> common_types(const JsonValue& one, const JsonValue& other) {
    JsonValue::Array common;
    for (const JsonValue& type : as_list(one)) {
      for (const JsonValue& wanted : as_list(other)) {
        if (!type.is_string() || !wanted.is_string()) return unjoined("type");
        const std::string& name = type.as_string();
        const std::string& wanted_name = wanted.as_string();
        if (name == wanted_name || (name == "integer" && wanted_name == "number")) common.push_back(type);
        if (name == "number" && wanted_name == "integer") common.push_back(wanted);
      }
    }
    if (common.empty()) return unjoined("type");
    return JsonValue(std::move(common));
  }

  // A property that both describe has to fit both.
  static Result<JsonValue> all_properties(const JsonValue& one, const JsonValue& other) {
    std::vector<JsonObject::Member> members;
    for (const auto& [name, value] : one.as_object().members()) {
      const JsonValue* more = other.find(name);
      if (!more || json_text(*more) == json_text(value)) {
        members.emplace_back(name, value);
        continue;
      }
      std::vector<JsonObject::Member> both;
      both.emplace_back("allOf", JsonValue(JsonValue::Array{value, *more}));
      members.emplace_back(name, JsonValue(JsonObject(std::move(both))));
    }
    for (const auto& [name, value] : other.as_object().members()) {
      if (!one.find(name)) members.emplace_back(name, value);
    }
    return JsonValue(JsonObject(std::move(members)));
  }

  const JsonValue& document_;
  Budget& budget_;
  std::set<const JsonValue*> added_;
  std::map<std::string, JsonValue> values_;
  std::vector<std::string> order_;  // of the keywords
};

}  // namespace

Result<JsonValue> merged_schema(const JsonValue& document, const JsonValue& schema, Budget& budget) {
  FULMAR_ASSIGN(JsonValue merged, SchemaMerge(document, budget).merge(schema));
  // A schema that closes its object knows the properties of the others as little as it should.
  const JsonValue* more = merged.find("additionalProperties");
  if (!more || (more->is_bool() && more->as_bool())) return merged;
  return Error{ErrorKind::unsupported, "holds schemas of which 'additionalProperties' cannot be joined"};
}

}  // namespace fulmar
