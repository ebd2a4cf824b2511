// The list of open schemas, references, alternatives, and the choice by type. Each form names the keywords it
// understands; any other is refused by name.
#include "grammar/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "grammar/schema_merge.h"
#include "grammar/schema_values.h"

namespace fulmar {
namespace {

constexpr size_t kMaxOneOf = 256;  // each pair of alternatives is compared
constexpr size_t kLongestPlace = 256;

// They describe, and ask for nothing.
constexpr std::string_view kAnnotations[] = {
    "title",        "description", "default",  "example",          "examples",      "$schema",
    "$id",          "$anchor",     "$comment", "deprecated",       "readOnly",      "writeOnly",
    "$defs",        "definitions", "nullable", "contentMediaType", "contentSchema", "discriminator",
    "externalDocs", "xml"};
constexpr std::string_view kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_annotation(std::string_view keyword, const JsonValue& value) {
  if (contains(kAnnotations, keyword) || keyword.starts_with("x-")) return true;
  // Set to false it asks for nothing.
  return keyword == "uniqueItems" && value.is_bool() && !value.as_bool();
}

bool is_nullable(const JsonValue& schema) {
  const JsonValue* nullable = schema.find("nullable");
  return nullable && nullable->is_bool() && nullable->as_bool();
}

// An allOf that is more than one schema under another name.
bool has_several_parts(const JsonValue& schema) {
  const JsonValue* parts = schema.find("allOf");
  if (!parts || !parts->is_array()) return false;
  const auto& members = schema.as_object().members();
  const bool alone = std::all_of(members.begin(), members.end(), [](const JsonObject::Member& member) {
    return member.first == "allOf" || is_annotation(member.first, member.second);
  });
  return parts->as_array().size() != 1 || !alone;
}

// The types named by `type`, or those that the other keywords speak of; empty: all.
Result<std::vector<std::string>> types_of(const JsonValue& schema, const SchemaPlace& where) {
  std::vector<std::string> types;
  if (const JsonValue* type = schema.find("type")) {
    const JsonValue::Array list = type->is_array() ? type->as_array() : JsonValue::Array{*type};
    for (const JsonValue& one : list) {
      if (!one.is_string() || !contains(kTypes, one.as_string())) {
        return invalid_keyword(text_of(where), "type", one,
                               "null, boolean, integer, number, string, array or object");
      }
      if (std::find(types.begin(), types.end(), one.as_string()) == types.end())
        types.push_back(one.as_string());
    }
    if (types.empty()) return invalid_keyword(text_of(where), "type", *type, "at least one type");
    const bool has_null = std::find(types.begin(), types.end(), "null") != types.end();
    if (is_nullable(schema) && !has_null) types.emplace_back("null");
    return types;
  }
  const auto speaks_of = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return schema.find(name) != nullptr; });
  };
  if (speaks_of({"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
                 "minProperties", "maxProperties"})) {
    types.emplace_back("object");
  }
  if (speaks_of({"items", "prefixItems", "minItems", "maxItems"})) types.emplace_back("array");
  if (speaks_of({"minLength", "maxLength", "pattern", "format", "contentEncoding"}))
    types.emplace_back("string");
  if (speaks_of({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) {
    types.emplace_back("number");
  }
  return types;
}

}  // namespace

std::string text_of(const SchemaPlace& where) {
  std::vector<std::string_view> names;
  for (const SchemaPlace* at = &where; at; at = at->up) names.push_back(at->name);
  std::string text;
  for (size_t i = names.size(); i-- > 0 && text.size() <= kLongestPlace;) {
    if (!text.empty()) text += '/';
    text += names[i].substr(0, kLongestPlace);
  }
  if (text.size() <= kLongestPlace) return text;
  return text.substr(0, kLongestPlace) + "...";
}

Result<Rule> SchemaCompiler::compile() {
  const Rule root = rule_of(document_, places_.emplace_back(Where{nullptr, "#"}));
  while (!open_.empty()) {
    const Open next = open_.back();
    open_.pop_back();
    FULMAR_TRY(budget_.take(Budget::Item::schemas));
    Result<Place> body = body_of(*next.schema, *next.where);
    if (!body && lenient_ && body.error().kind == ErrorKind::unsupported) {
      const Rule any = next.rule == root ? rules_.any_object(kFreeDepth) : rules_.any_value(kFreeDepth);
      body = grammar_.call(any, grammar_.end());
    }
    if (!body) return body.error();
    grammar_.begin(next.rule, *body);
  }
  return root;
}

Rule SchemaCompiler::rule_of(const JsonValue& schema, const Where& where) {
  const auto [found, fresh] = known_.emplace(&schema, -1);
  if (!fresh) return found->second;
  found->second = grammar_.new_rule();
  open_.push_back({&schema, &where, found->second});
  return found->second;
}

const SchemaPlace& SchemaCompiler::below(const Where& up, std::string_view name) {
  if (up.depth >= kDeepestPlace) return up;
  return places_.emplace_back(Where{&up, name, up.depth + 1});
}

const SchemaPlace& SchemaCompiler::below(const Where& up, size_t index) {
  return below(up, indices_.emplace_back(std::to_string(index)));
}

Status SchemaCompiler::only(const JsonValue& schema, Keywords allowed, const Where& where) const {
  if (lenient_) return {};
  const std::span<const std::string_view> names(allowed.begin(), allowed.size());
  for (const auto& [keyword, value] : schema.as_object().members()) {
    if (is_annotation(keyword, value) || contains(names, keyword)) continue;
    const bool combined = !names.empty() && schema.find(names.front()) && names.front() != "type";
    const std::string beside = combined ? fmt::format(" beside '{}'", names.front()) : std::string();
    return unsupported_keyword(text_of(where), keyword.substr(0, kLongestPlace), "is not supported" + beside);
  }
  return {};
}

Result<Place> SchemaCompiler::body_of(const JsonValue& schema, const Where& where) {
  if (schema.is_bool()) {
    if (!schema.as_bool()) return nothing_fits(text_of(where));
    return grammar_.call(rules_.any_value(kFreeDepth), grammar_.end());
  }
  if (!schema.is_object()) {
    return Error{ErrorKind::invalid,
                 fmt::format("the schema at '{}' is {}; wanted an object", text_of(where), describe(schema))};
  }
  if (const JsonValue* reference = schema.find("$ref")) return referred(schema, *reference, where);
  if (has_several_parts(schema) && !lenient_) return joined(schema, where);
  if (schema.find("const") || schema.find("enum")) {
    FULMAR_ASSIGN(auto values, values_of(schema, where));
    return grammar_.one_of(std::move(values), grammar_.end());
  }
  // Where not everything is kept, the plain keywords say more than the combinations beside them.
  const bool plain_first = lenient_ && (schema.find("properties") || schema.find("type"));
  for (const std::string_view keyword : {"anyOf", "oneOf", "allOf"}) {
    const JsonValue* list = schema.find(keyword);
    if (!list || plain_first) continue;
    FULMAR_TRY(only(schema, {keyword}, where));
    return combined(keyword, *list, where);
  }
  return typed(schema, where);
}

Result<Place> SchemaCompiler::referred(const JsonValue& schema, const JsonValue& reference,
                                       const Where& where) {
  FULMAR_TRY(only(schema, {"$ref"}, where));
  const auto meant = find_reference(document_, reference);
  if (!meant) {
    return unsupported_keyword(text_of(where), "$ref",
                               fmt::format("is {}; {}", describe(reference), meant.error().text));
  }
  const Where& there = places_.emplace_back(Where{nullptr, reference.as_string()});
  return grammar_.call(rule_of(**meant, there), grammar_.end());
}

// An allOf with others beside it or within it, as one schema.
Result<Place> SchemaCompiler::joined(const JsonValue& schema, const Where& where) {
  const JsonValue::Array& parts = schema.find("allOf")->as_array();
  if (parts.empty())
    return invalid_keyword(text_of(where), "allOf", *schema.find("allOf"), "at least one schema");
  auto merged = merged_schema(document_, schema, budget_);
  if (!merged) return unsupported_keyword(text_of(where), "allOf", merged.error().text);
  // By its text, so that an allOf that leads back to itself is met again.
  std::string text = json_text(*merged);
  FULMAR_TRY(budget_.take(Budget::Item::work, text.size()));
  const auto known = joined_.find(text);
  if (known != joined_.end()) return grammar_.call(known->second, grammar_.end());
  const JsonValue& one = merged_.emplace_back(std::move(*merged));
  const JsonValue* pattern = one.find("pattern");
  if (pattern && pattern->is_array()) with_many_patterns_.insert(&one);
  const Rule rule = rule_of(one, where);
  joined_.emplace(std::move(text), rule);
  return grammar_.call(rule, grammar_.end());
}

Result<Place> SchemaCompiler::combined(std::string_view keyword, const JsonValue& list, const Where& where) {
  if (!list.is_array() || list.as_array().empty()) {
    return invalid_keyword(text_of(where), keyword, list, "an array of at least one schema");
  }
  const JsonValue::Array& choices = list.as_array();
  if (keyword == "oneOf" && !lenient_) {
    if (choices.size() > kMaxOneOf) {
      return unsupported_keyword(
          text_of(where), keyword,
          fmt::format("holds {} alternatives; at most {} are supported, or use 'anyOf'", choices.size(),
                      kMaxOneOf));
    }
    for (size_t i = 0; i < choices.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        FULMAR_ASSIGN(const bool differ, apart_.apart(choices[j], choices[i]));
        if (differ) continue;
        return unsupported_keyword(
            text_of(where), keyword,
            fmt::format(
                "has alternatives {} and {} that one value may fit both; wanted ones that differ in type or "
                "in a constant, or 'anyOf'",
                j, i));
      }
    }
  }
  return alternatives(choices, below(where, keyword));
}

// The texts of `const` or `enum`.
Result<std::vector<std::string>> SchemaCompiler::values_of(const JsonValue& schema, const Where& where) {
  const JsonValue* value = schema.find("const");
  const JsonValue* listed = schema.find("enum");
  FULMAR_TRY(only(schema, {value ? std::string_view("const") : std::string_view("enum"), "type"}, where));
  if (!value && !listed->is_array()) return invalid_keyword(text_of(where), "enum", *listed, "an array");
  const JsonValue::Array values = value ? JsonValue::Array{*value} : listed->as_array();
  FULMAR_ASSIGN(const auto types, types_of(schema, where));
  const bool all = !schema.find("type");
  std::vector<std::string> texts;
  for (const JsonValue& one : values) {
    const bool fits = all || std::any_of(types.begin(), types.end(),
                                         [&](const std::string& type) { return is_of_type(one, type); });
    if (fits) texts.push_back(json_text(one));
  }
  if (texts.empty()) return nothing_fits(text_of(where));
  return texts;
}

// Values that alternatives list one by one make a prefix tree together; each other one is a way of its own.
Result<Place> SchemaCompiler::alternatives(const JsonValue::Array& list, const Where& where) {
  std::vector<Place> choices;
  std::vector<std::string> values;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonValue& schema = list[i];
    if (schema.is_object() && !schema.find("$ref") && (schema.find("const") || schema.find("enum"))) {
      FULMAR_TRY(budget_.take(Budget::Item::schemas));
      FULMAR_ASSIGN(auto some, values_of(schema, below(where, i)));
      std::move(some.begin(), some.end(), std::back_inserter(values));
    } else {
      choices.push_back(grammar_.call(rule_of(schema, below(where, i)), grammar_.end()));
    }
  }
  if (choices.size() > kMaxChoices) {
    return Error{
        ErrorKind::unsupported,
        fmt::format("the list at '{}' holds {} alternatives beside those of 'const' and 'enum'; at most {} "
                    "are allowed",
                    text_of(where), choices.size(), kMaxChoices)};
  }
  if (!values.empty()) choices.push_back(grammar_.one_of(std::move(values), grammar_.end()));
  return grammar_.branch(choices);
}

Result<Place> SchemaCompiler::typed(const JsonValue& schema, const Where& where) {
  FULMAR_TRY(only(schema,
                  {"type",
                   "properties",
                   "required",
                   "additionalProperties",
                   "patternProperties",
                   "propertyNames",
                   "minProperties",
                   "maxProperties",
                   "items",
                   "prefixItems",
                   "minItems",
                   "maxItems",
                   "minLength",
                   "maxLength",
                   "pattern",
                   "format",
                   "contentEncoding",
                   "minimum",
                   "maximum",
                   "exclusiveMinimum",
                   "exclusiveMaximum",
                   "multipleOf"},
                  where));
  FULMAR_ASSIGN(const auto types, types_of(schema, where));
  if (types.empty()) return grammar_.call(rules_.any_value(kFreeDepth), grammar_.end());
  std::vector<Place> choices;
  for (const std::string& type : types) {
    FULMAR_ASSIGN(const Place choice, of_type(type, schema, where));
    choices.push_back(choice);
  }
  return grammar_.branch(choices);
}

Result<Place> SchemaCompiler::of_type(std::string_view type, const JsonValue& schema, const Where& where) {
  const Place end = grammar_.end();
  if (type == "null") return grammar_.text("null", end);
  if (type == "boolean") return grammar_.one_of({"true", "false"}, end);
  if (type == "string") return string_body(schema, where);
  if (type == "array") return array_body(schema, where);
  if (type == "object") return object_body(schema, where);
  return number_body(schema, type == "integer", where);
}

}  // namespace fulmar
