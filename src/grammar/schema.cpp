// Keyword by keyword. Each form names the keywords it understands; any other is refused by name.
#include "grammar/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "grammar/schema_values.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kAnnotations[] = {"title",    "description", "default",  "examples",
                                             "$schema",  "$id",         "$comment", "deprecated",
                                             "readOnly", "writeOnly",   "$defs",    "definitions"};
constexpr std::string_view kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Error invalid(const std::string& where, std::string_view keyword, const JsonValue& found,
              std::string_view wanted) {
  return {ErrorKind::invalid, fmt::format("schema keyword '{}' at '{}' is {}; wanted {}", keyword, where,
                                          describe(found), wanted)};
}

// A count such as minLength.
Result<std::optional<int64_t>> count_of(const JsonValue& schema, std::string_view keyword,
                                        const std::string& where) {
  const JsonValue* value = schema.find(keyword);
  if (!value) return std::optional<int64_t>();
  const double number = value->is_number() ? value->as_double() : -1;
  if (number < 0 || number > 1e9 || number != std::floor(number)) {
    return invalid(where, keyword, *value, "a whole number of 0 to 1000000000");
  }
  return std::optional<int64_t>(static_cast<int64_t>(number));
}

Result<std::optional<double>> bound_of(const JsonValue& schema, std::string_view keyword,
                                       const std::string& where) {
  const JsonValue* value = schema.find(keyword);
  if (!value) return std::optional<double>();
  if (!value->is_number()) return invalid(where, keyword, *value, "a number");
  return std::optional<double>(value->as_double());
}

Error nothing_fits(const std::string& where) {
  return {ErrorKind::invalid, fmt::format("the schema at '{}' admits no value", where)};
}

int64_t clamped(double bound) {
  return static_cast<int64_t>(
      std::clamp(bound, -static_cast<double>(kLargestWhole), static_cast<double>(kLargestWhole)));
}

// The types named by `type`, or those that the other keywords speak of; empty: all.
Result<std::vector<std::string>> types_of(const JsonValue& schema, const std::string& where) {
  std::vector<std::string> types;
  if (const JsonValue* type = schema.find("type")) {
    const JsonValue::Array list = type->is_array() ? type->as_array() : JsonValue::Array{*type};
    for (const JsonValue& one : list) {
      if (!one.is_string() || !contains(kTypes, one.as_string())) {
        return invalid(where, "type", one, "null, boolean, integer, number, string, array or object");
      }
      types.push_back(one.as_string());
    }
    if (types.empty()) return invalid(where, "type", *type, "at least one type");
    return types;
  }
  const auto speaks_of = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return schema.find(name) != nullptr; });
  };
  if (speaks_of({"properties", "required", "additionalProperties"})) types.push_back("object");
  if (speaks_of({"items", "prefixItems", "minItems", "maxItems"})) types.push_back("array");
  if (speaks_of({"minLength", "maxLength"})) types.push_back("string");
  if (speaks_of({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) types.push_back("number");
  return types;
}

}  // namespace

Result<Rule> SchemaCompiler::rule_of(const JsonValue& schema, const std::string& where) {
  const auto found = known_.find(&schema);
  if (found != known_.end()) return found->second;
  const Rule rule = grammar_.new_rule();
  known_.emplace(&schema, rule);
  FULMAR_ASSIGN(const Place body, body_of(schema, where));
  grammar_.begin(rule, body);
  return rule;
}

Status SchemaCompiler::only(const JsonValue& schema, Keywords allowed, const std::string& where) const {
  const std::span<const std::string_view> names(allowed.begin(), allowed.size());
  for (const auto& [keyword, value] : schema.as_object().members()) {
    if (contains(kAnnotations, keyword) || contains(names, keyword)) continue;
    // Set to false it asks for nothing.
    if (keyword == "uniqueItems" && value.is_bool() && !value.as_bool()) continue;
    const bool combined = !names.empty() && schema.find(*names.begin()) && names.front() != "type";
    return Error{ErrorKind::unsupported,
                 fmt::format("schema keyword '{}' at '{}' is not supported{}", keyword, where,
                             combined ? fmt::format(" beside '{}'", names.front()) : std::string())};
  }
  return {};
}

Result<Place> SchemaCompiler::body_of(const JsonValue& schema, const std::string& where) {
  if (schema.is_bool()) {
    if (!schema.as_bool()) return nothing_fits(where);
    return grammar_.call(rules_.any_value(kFreeDepth), grammar_.end());
  }
  if (!schema.is_object()) {
    return Error{ErrorKind::invalid,
                 fmt::format("the schema at '{}' is {}; wanted an object", where, describe(schema))};
  }
  if (const JsonValue* reference = schema.find("$ref")) {
    FULMAR_TRY(only(schema, {"$ref"}, where));
    FULMAR_ASSIGN(const JsonValue* meant, target(*reference, where));
    FULMAR_ASSIGN(const Rule rule, rule_of(*meant, reference->as_string()));
    return grammar_.call(rule, grammar_.end());
  }
  if (const JsonValue* value = schema.find("const")) {
    FULMAR_TRY(only(schema, {"const", "type"}, where));
    return values_of(schema, {*value}, where);
  }
  if (const JsonValue* values = schema.find("enum")) {
    FULMAR_TRY(only(schema, {"enum", "type"}, where));
    if (!values->is_array()) return invalid(where, "enum", *values, "an array");
    return values_of(schema, values->as_array(), where);
  }
  for (const std::string_view keyword : {"anyOf", "oneOf", "allOf"}) {
    const JsonValue* list = schema.find(keyword);
    if (!list) continue;
    FULMAR_TRY(only(schema, {keyword}, where));
    if (!list->is_array() || list->as_array().empty()) {
      return invalid(where, keyword, *list, "an array of at least one schema");
    }
    if (keyword == "allOf" && list->as_array().size() > 1) {
      return Error{ErrorKind::unsupported,
                   fmt::format("schema keyword 'allOf' at '{}' holds {} schemas; only one is supported",
                               where, list->as_array().size())};
    }
    if (keyword == "oneOf") FULMAR_TRY(check_apart(list->as_array(), where));
    return alternatives(*list, fmt::format("{}/{}", where, keyword));
  }
  return typed(schema, where);
}

Result<Place> SchemaCompiler::values_of(const JsonValue& schema, const JsonValue::Array& values,
                                        const std::string& where) {
  FULMAR_ASSIGN(const auto types, types_of(schema, where));
  std::vector<Place> choices;
  for (const JsonValue& value : values) {
    const bool fits = types.empty() || std::any_of(types.begin(), types.end(), [&](const std::string& type) {
                        return is_of_type(value, type);
                      });
    if (fits) choices.push_back(grammar_.text(json_text(value), grammar_.end()));
  }
  if (choices.empty()) return nothing_fits(where);
  return grammar_.branch(choices);
}

Result<Place> SchemaCompiler::alternatives(const JsonValue& list, const std::string& where) {
  std::vector<Place> choices;
  for (const JsonValue& schema : list.as_array()) {
    FULMAR_ASSIGN(const Rule rule, rule_of(schema, fmt::format("{}/{}", where, choices.size())));
    choices.push_back(grammar_.call(rule, grammar_.end()));
  }
  return grammar_.branch(choices);
}

Result<Place> SchemaCompiler::typed(const JsonValue& schema, const std::string& where) {
  FULMAR_TRY(only(
      schema,
      {"type", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems",
       "maxItems", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
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

Result<Place> SchemaCompiler::of_type(std::string_view type, const JsonValue& schema,
                                      const std::string& where) {
  const Place end = grammar_.end();
  if (type == "null") return grammar_.text("null", end);
  if (type == "boolean") return grammar_.branch(grammar_.text("true", end), grammar_.text("false", end));
  if (type == "string") return string_body(schema, where);
  if (type == "array") return array_body(schema, where);
  if (type == "object") return object_body(schema, where);
  return number_body(schema, type == "integer", where);
}

Result<Place> SchemaCompiler::string_body(const JsonValue& schema, const std::string& where) {
  FULMAR_ASSIGN(const auto least, count_of(schema, "minLength", where));
  FULMAR_ASSIGN(const auto most, count_of(schema, "maxLength", where));
  if (most && least.value_or(0) > *most) return nothing_fits(where);
  return rules_.string(least.value_or(0), most.value_or(-1), grammar_.end());
}

Result<Place> SchemaCompiler::number_body(const JsonValue& schema, bool whole, const std::string& where) {
  FULMAR_ASSIGN(const auto minimum, bound_of(schema, "minimum", where));
  FULMAR_ASSIGN(const auto maximum, bound_of(schema, "maximum", where));
  FULMAR_ASSIGN(const auto above, bound_of(schema, "exclusiveMinimum", where));
  FULMAR_ASSIGN(const auto below, bound_of(schema, "exclusiveMaximum", where));
  WholeRange wholes;
  WholeRange between;  // fractions lie strictly between whole numbers, so excluded ends make no difference
  if (minimum) wholes.least = between.least = clamped(std::ceil(*minimum));
  if (maximum) wholes.most = between.most = clamped(std::floor(*maximum));
  if (above) {
    wholes.least = std::max(wholes.least, clamped(std::floor(*above) + 1));
    between.least = std::max(between.least, clamped(std::ceil(*above)));
  }
  if (below) {
    wholes.most = std::min(wholes.most, clamped(std::ceil(*below) - 1));
    between.most = std::min(between.most, clamped(std::floor(*below)));
  }
  if (!whole && !minimum && !maximum && !above && !below) return rules_.number(grammar_.end());
  const bool no_whole = wholes.least > wholes.most;
  if (whole && no_whole) return nothing_fits(where);
  if (whole) return rules_.whole(wholes, grammar_.end());
  if (no_whole && between.least >= between.most) {
    return Error{
        ErrorKind::unsupported,
        fmt::format("schema keywords 'minimum' and 'maximum' at '{}' leave no room between two whole "
                    "numbers; wanted a range that holds one",
                    where)};
  }
  return rules_.number_between(wholes, between, grammar_.end());
}

Result<Place> SchemaCompiler::array_body(const JsonValue& schema, const std::string& where) {
  FULMAR_ASSIGN(const auto min_items, count_of(schema, "minItems", where));
  FULMAR_ASSIGN(const auto max_items, count_of(schema, "maxItems", where));
  const int64_t least = min_items.value_or(0);
  if (max_items && least > *max_items) return nothing_fits(where);
  const JsonValue* prefix = schema.find("prefixItems");
  const JsonValue* items = schema.find("items");
  if (prefix && !prefix->is_array()) return invalid(where, "prefixItems", *prefix, "an array of schemas");
  if (items && items->is_array()) return invalid(where, "items", *items, "a schema");
  const bool closed = items && items->is_bool() && !items->as_bool();
  Rule rest = rules_.any_value(kFreeDepth - 1);
  if (items && !closed) {
    FULMAR_ASSIGN(rest, rule_of(*items, where + "/items"));
  }
  const int64_t listed = prefix ? static_cast<int64_t>(prefix->as_array().size()) : 0;
  if (listed == 0) {
    if (closed && least > 0) return nothing_fits(where);
    return rules_.array_of(rest, least, closed ? 0 : max_items.value_or(-1), grammar_.end());
  }
  if (closed && least > listed) return nothing_fits(where);

  // From the end: what may follow the listed items, then one listed item after the other.
  Grammar& g = grammar_;
  const Place close = g.text("]", g.end());
  const Rule further = g.rule(g.text(",", g.call(rest, g.end())));
  int64_t most_further = max_items ? std::max<int64_t>(0, *max_items - listed) : -1;
  if (closed || !items) most_further = std::max<int64_t>(0, least - listed);
  Place place = g.repeat(further, std::max<int64_t>(0, least - listed), most_further, close);
  for (int64_t i = listed; i-- > 0;) {
    FULMAR_ASSIGN(const Rule item, rule_of(prefix->as_array()[static_cast<size_t>(i)],
                                           fmt::format("{}/prefixItems/{}", where, i)));
    if (max_items && i >= *max_items) {
      place = close;
      continue;
    }
    const Place element = g.call(item, place);
    place = i == 0 ? element : g.text(",", element);
    if (i >= least) place = g.branch(close, place);
  }
  return g.text("[", place);
}

Result<Place> SchemaCompiler::object_body(const JsonValue& schema, const std::string& where) {
  struct Property {
    std::string name;
    Rule value;
    bool required = false;
  };
  std::vector<Property> properties;
  if (const JsonValue* listed = schema.find("properties")) {
    if (!listed->is_object()) return invalid(where, "properties", *listed, "an object");
    for (const auto& [name, value] : listed->as_object().members()) {
      if (value.is_bool() && !value.as_bool()) continue;  // never there
      FULMAR_ASSIGN(const Rule rule, rule_of(value, fmt::format("{}/properties/{}", where, name)));
      properties.push_back({name, rule});
    }
  }
  const JsonValue* more = schema.find("additionalProperties");
  Rule extra = rules_.any_value(kFreeDepth - 1);
  const bool closed = more && more->is_bool() && !more->as_bool();
  if (more && !more->is_bool()) {
    FULMAR_ASSIGN(extra, rule_of(*more, where + "/additionalProperties"));
  }
  if (const JsonValue* required = schema.find("required")) {
    if (!required->is_array()) return invalid(where, "required", *required, "an array of names");
    for (const JsonValue& name : required->as_array()) {
      if (!name.is_string()) return invalid(where, "required", name, "names");
      const auto at = std::find_if(properties.begin(), properties.end(),
                                   [&](const Property& one) { return one.name == name.as_string(); });
      if (at != properties.end()) {
        at->required = true;
        continue;
      }
      const JsonValue* listed = schema.find("properties");
      if (closed || (listed && listed->find(name.as_string()))) return nothing_fits(where);
      properties.push_back({name.as_string(), extra, true});
    }
  }
  Grammar& g = grammar_;
  if (properties.empty()) {
    return closed ? g.text("{}", g.end()) : rules_.object_of(extra, g.end());
  }
  // From the end, twice: with a comma due, and without one because nothing has been written yet.
  Place first = g.text("}", g.end());
  Place later = first;
  for (size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    const Place member = g.text(json_quoted(property.name) + ":", g.call(property.value, later));
    const Place next = g.text(",", member);
    first = property.required ? member : g.branch(member, first);
    later = property.required ? next : g.branch(next, later);
  }
  return g.text("{", first);
}

}  // namespace fulmar
