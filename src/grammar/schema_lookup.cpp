// References within a schema, and which alternatives exclude each other.
#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "grammar/schema.h"
#include "grammar/schema_values.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr int kMaxReferences = 16;
constexpr size_t kMaxOneOf = 256;  // each pair of alternatives is compared

// "~1" is '/', "~0" is '~'.
std::string unescaped(std::string_view part) {
  std::string name;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool escape = part[i] == '~' && i + 1 < part.size();
    name += !escape ? part[i] : part[++i] == '1' ? '/' : '~';
  }
  return name;
}

const JsonValue* child(const JsonValue& value, const std::string& name) {
  if (!value.is_array()) return value.find(name);
  size_t index = 0;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool whole = fault == std::errc() && end == name.data() + name.size();
  return whole && index < value.as_array().size() ? &value.as_array()[index] : nullptr;
}

// The values that a schema lists one by one.
std::optional<std::set<std::string>> listed_values(const JsonValue& schema) {
  std::set<std::string> texts;
  if (const JsonValue* value = schema.find("const")) return std::set<std::string>{json_text(*value)};
  const JsonValue* values = schema.find("enum");
  if (!values || !values->is_array()) return std::nullopt;
  for (const JsonValue& value : values->as_array()) texts.insert(json_text(value));
  return texts;
}

bool disjoint(const std::set<std::string>& one, const std::set<std::string>& other) {
  return std::none_of(one.begin(), one.end(), [&](const std::string& text) { return other.contains(text); });
}

constexpr std::string_view kKinds[] = {"null", "boolean", "number", "string", "array", "object"};

// Which of kKinds a schema admits; all when it does not say.
std::bitset<6> kinds_of(const JsonValue& schema) {
  std::bitset<6> kinds;
  const JsonValue* type = schema.find("type");
  const JsonValue* value = schema.find("const");
  const JsonValue* values = schema.find("enum");
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto names = [&](const JsonValue& name) {
      return name.is_string() &&
             (name.as_string() == kKinds[i] || (name.as_string() == "integer" && kKinds[i] == "number"));
    };
    const auto fits = [&](const JsonValue& one) { return is_of_type(one, kKinds[i]); };
    kinds[i] = true;
    if (type && type->is_array()) {
      kinds[i] = std::any_of(type->as_array().begin(), type->as_array().end(), names);
    } else if (type) {
      kinds[i] = names(*type);
    }
    if (value) kinds[i] = kinds[i] && fits(*value);
    if (values && values->is_array()) {
      kinds[i] = kinds[i] && std::any_of(values->as_array().begin(), values->as_array().end(), fits);
    }
  }
  return kinds;
}

bool requires_member(const JsonValue& schema, const std::string& name) {
  const JsonValue* required = schema.find("required");
  if (!required || !required->is_array()) return false;
  return std::any_of(required->as_array().begin(), required->as_array().end(),
                     [&](const JsonValue& one) { return one.is_string() && one.as_string() == name; });
}

}  // namespace

std::string json_text(const JsonValue& value) {
  JsonWriter json;
  json.value(value);
  return json.take();
}

bool is_of_type(const JsonValue& value, std::string_view type) {
  switch (value.kind()) {
    case JsonValue::Kind::null:
      return type == "null";
    case JsonValue::Kind::boolean:
      return type == "boolean";
    case JsonValue::Kind::int64:
    case JsonValue::Kind::uint64:
      return type == "integer" || type == "number";
    case JsonValue::Kind::number:
      return type == "number" || (type == "integer" && value.as_double() == std::floor(value.as_double()));
    case JsonValue::Kind::string:
      return type == "string";
    case JsonValue::Kind::array:
      return type == "array";
    case JsonValue::Kind::object:
      return type == "object";
  }
  return false;
}

Result<const JsonValue*> SchemaCompiler::target(const JsonValue& reference, const std::string& where) const {
  const auto refuse = [&](std::string_view why) {
    return Error{ErrorKind::unsupported,
                 fmt::format("schema keyword '$ref' at '{}' is {}; {}", where, describe(reference), why)};
  };
  if (!reference.is_string() || !reference.as_string().starts_with('#')) {
    return refuse("wanted a place within the schema such as \"#/$defs/name\"");
  }
  const JsonValue* at = &document_;
  std::string_view rest = std::string_view(reference.as_string()).substr(1);
  while (!rest.empty()) {
    if (rest.front() != '/') return refuse("wanted '#' or '#/...'");
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    at = child(*at, unescaped(rest.substr(0, end)));
    if (!at) return refuse("there is no such place");
    rest.remove_prefix(end);
  }
  return at;
}

const JsonValue& SchemaCompiler::resolved(const JsonValue& schema) const {
  const JsonValue* at = &schema;
  for (int i = 0; i < kMaxReferences; ++i) {
    const JsonValue* reference = at->find("$ref");
    if (!reference) break;
    const auto meant = target(*reference, {});
    if (!meant) break;
    at = *meant;
  }
  return *at;
}

// True only when no value fits both.
bool SchemaCompiler::apart(const JsonValue& first, const JsonValue& second, int depth) const {
  const JsonValue& one = resolved(first);
  const JsonValue& other = resolved(second);
  if (depth == 0 || !one.is_object() || !other.is_object()) return false;
  const std::bitset<6> shared = kinds_of(one) & kinds_of(other);
  if (shared.none()) return true;
  const auto listed = listed_values(one);
  const auto listed_too = listed_values(other);
  if (listed && listed_too) return disjoint(*listed, *listed_too);
  const bool objects_only = shared.count() == 1 && shared[5];
  const JsonValue* properties = one.find("properties");
  const JsonValue* others = other.find("properties");
  if (!objects_only || !properties || !properties->is_object() || !others) return false;
  for (const auto& [name, value] : properties->as_object().members()) {
    const JsonValue* counterpart = others->find(name);
    if (!counterpart || !requires_member(one, name) || !requires_member(other, name)) continue;
    if (apart(value, *counterpart, depth - 1)) return true;
  }
  return false;
}

Status SchemaCompiler::check_apart(const JsonValue::Array& choices, const std::string& where) const {
  if (choices.size() > kMaxOneOf) {
    return Error{ErrorKind::unsupported,
                 fmt::format("schema keyword 'oneOf' at '{}' holds {} alternatives; at "
                             "most {} are supported, or use 'anyOf'",
                             where, choices.size(), kMaxOneOf)};
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (apart(choices[j], choices[i], kMaxReferences)) continue;
      return Error{ErrorKind::unsupported,
                   fmt::format("schema keyword 'oneOf' at '{}': a value may fit the alternatives {} and {} "
                               "both; wanted ones that differ in type or in a constant, or 'anyOf'",
                               where, j, i)};
    }
  }
  return {};
}

}  // namespace fulmar
