// Keyword by keyword, from one table: what is not in it annotates.
#include "grammar/schema_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "grammar/schema_values.h"

namespace fulmar {
namespace {

constexpr std::string_view kCombining[] = {
    "$ref",         "$dynamicRef",      "$recursiveRef",    "allOf", "anyOf", "oneOf", "not", "if",
    "dependencies", "dependentSchemas", "dependentRequired"};
constexpr std::string_view kTypes[] = {"null", "boolean", "number", "string", "array", "object"};

struct Keyword {
  SchemaReader& reader;
  const JsonValue& schema;
  std::string_view name;
  const JsonValue& value;
  Shape& shape;

  Error wanted(std::string_view what) const { return reader.invalid(schema, name, value, what); }
};
using Read = Status (*)(const Keyword&);

Status read_type(const Keyword& at) {
  const auto named = kinds_named(at.schema);
  if (!named) return at.wanted("null, boolean, integer, number, string, array or object");
  at.shape.kinds &= named->kinds;
  at.shape.whole = at.shape.whole || named->whole;
  return {};
}

// Keeps those of the values so far that this schema lists, too.
Status list_values(const Keyword& at, std::vector<const JsonValue*> listed) {
  size_t bytes = 0;
  std::map<std::string, bool> known;
  for (const JsonValue* one : listed) bytes += known.emplace(same_text(*one), true).first->first.size() + 1;
  FULMAR_TRY(at.reader.budget().take(Budget::Item::work, bytes));
  auto& values = at.shape.values;
  if (!values) {
    values.emplace();
    for (const JsonValue* one : listed) {
      const auto found = known.find(same_text(*one));
      if (!found->second) continue;
      found->second = false;
      values->push_back(one);
    }
    return {};
  }
  std::erase_if(*values, [&](const JsonValue* one) { return !known.contains(same_text(*one)); });
  return {};
}

Status read_const(const Keyword& at) { return list_values(at, {&at.value}); }

Status read_enum(const Keyword& at) {
  if (!at.value.is_array()) return at.wanted("an array");
  std::vector<const JsonValue*> listed;
  for (const JsonValue& one : at.value.as_array()) listed.push_back(&one);
  return list_values(at, std::move(listed));
}

bool is_true(const JsonValue& schema, std::string_view keyword) {
  const JsonValue* value = schema.find(keyword);
  return value && value->is_bool() && value->as_bool();
}

// Reads a bound; in draft 4 a boolean keyword beside it says that the bound itself is excluded.
Status read_number_bound(const Keyword& at) {
  const bool exclusive = at.name.starts_with("exclusive");
  if (exclusive && at.value.is_bool()) return {};
  if (!at.value.is_number()) return at.wanted("a number");
  const Decimal bound = Decimal::of(at.value);
  if (at.name == "minimum" || at.name == "exclusiveMinimum") {
    at.shape.range.raise_least(bound, exclusive || is_true(at.schema, "exclusiveMinimum"));
  } else {
    at.shape.range.lower_most(bound, exclusive || is_true(at.schema, "exclusiveMaximum"));
  }
  return {};
}

Status read_step(const Keyword& at) {
  if (!at.value.is_number() || at.value.as_double() <= 0) return at.wanted("a number above 0");
  at.shape.steps.emplace_back(at.value.as_double(), &at.schema);
  return {};
}

Status read_pattern(const Keyword& at) {
  if (!at.value.is_string()) return at.wanted("a string");
  at.shape.patterns.push_back({&at.schema, true});
  return {};
}

Status read_format(const Keyword& at) {
  if (!at.value.is_string()) return at.wanted("a string");
  at.shape.formats.push_back({&at.schema, at.name, at.value.as_string()});
  return {};
}

Status read_encoding(const Keyword& at) {
  if (!at.value.is_string()) return at.wanted("a string");
  if (at.value.as_string() == "base64") at.shape.formats.push_back({&at.schema, at.name, "byte"});
  return {};
}

// Reads the least length of strings, arrays or objects.
template <int64_t Shape::*kLeast>
Status read_least(const Keyword& at) {
  const auto count = count_of(at.value);
  if (!count) return at.wanted("a whole number of 0 to 1000000000");
  at.shape.*kLeast = std::max(at.shape.*kLeast, *count);
  return {};
}

template <int64_t Shape::*kMost>
Status read_most(const Keyword& at) {
  const auto count = count_of(at.value);
  if (!count) return at.wanted("a whole number of 0 to 1000000000");
  int64_t& most = at.shape.*kMost;
  most = most < 0 ? *count : std::min(most, *count);
  return {};
}

bool is_schema(const JsonValue& value) { return value.is_object() || value.is_bool(); }

void note(std::vector<const JsonValue*>& schemas, const JsonValue& schema) {
  if (schemas.empty() || schemas.back() != &schema) schemas.push_back(&schema);
}

Status read_items(const Keyword& at) {
  const bool tuple = at.value.is_array() && at.name != "additionalItems";
  if (!tuple && !is_schema(at.value)) return at.wanted("a schema");
  if (at.name == "prefixItems" && !tuple) return at.wanted("an array of schemas");
  note(at.shape.lists, at.schema);
  return {};
}

Status read_contains(const Keyword& at) {
  if (!is_schema(at.value)) return at.wanted("a schema");
  Shape::Contained contained{{&at.value, true}, 1, -1, &at.schema};
  const JsonValue* least = at.schema.find("minContains");
  const JsonValue* most = at.schema.find("maxContains");
  if (least) {
    const auto count = count_of(*least);
    if (!count) return at.reader.invalid(at.schema, "minContains", *least, "a whole number");
    contained.least = *count;
  }
  if (most) {
    const auto count = count_of(*most);
    if (!count) return at.reader.invalid(at.schema, "maxContains", *most, "a whole number");
    contained.most = *count;
  }
  if (contained.least > 0 || contained.most >= 0) at.shape.contained.push_back(contained);
  return {};
}

Status read_unique(const Keyword& at) {
  if (!at.value.is_bool()) return at.wanted("true or false");
  if (at.value.as_bool() && !at.shape.unique) at.shape.unique = &at.schema;
  return {};
}

Status read_properties(const Keyword& at) {
  const bool map = at.name != "additionalProperties";
  if (map && !at.value.is_object()) return at.wanted("an object");
  if (!map && !is_schema(at.value)) return at.wanted("a schema");
  note(at.shape.objects, at.schema);
  return {};
}

Status read_required(const Keyword& at) {
  if (at.value.is_bool()) return {};  // draft 3 has it on the property itself
  if (!at.value.is_array()) return at.wanted("an array of names");
  for (const JsonValue& name : at.value.as_array()) {
    if (!name.is_string()) return at.reader.invalid(at.schema, at.name, name, "names");
    at.shape.required.push_back(name.as_string());
  }
  return at.reader.budget().take(Budget::Item::work, at.value.as_array().size());
}

Status read_names(const Keyword& at) {
  if (!is_schema(at.value)) return at.wanted("a schema");
  at.shape.names.push_back({&at.value, true});
  return {};
}

Status read_unevaluated(const Keyword& at) {
  if (!is_schema(at.value)) return at.wanted("a schema");
  const auto& known = at.shape.unevaluated;
  if (known.empty() || known.back().schema != &at.schema) at.shape.unevaluated.push_back({&at.schema, {}});
  return {};
}

const std::map<std::string_view, Read>& readers() {
  static const std::map<std::string_view, Read> table = {
      {"type", read_type},
      {"const", read_const},
      {"enum", read_enum},
      {"minimum", read_number_bound},
      {"maximum", read_number_bound},
      {"exclusiveMinimum", read_number_bound},
      {"exclusiveMaximum", read_number_bound},
      {"multipleOf", read_step},
      {"minLength", read_least<&Shape::least_length>},
      {"maxLength", read_most<&Shape::most_length>},
      {"pattern", read_pattern},
      {"format", read_format},
      {"contentEncoding", read_encoding},
      {"items", read_items},
      {"prefixItems", read_items},
      {"additionalItems", read_items},
      {"unevaluatedItems", read_unevaluated},
      {"minItems", read_least<&Shape::least_items>},
      {"maxItems", read_most<&Shape::most_items>},
      {"contains", read_contains},
      {"uniqueItems", read_unique},
      {"properties", read_properties},
      {"patternProperties", read_properties},
      {"additionalProperties", read_properties},
      {"required", read_required},
      {"propertyNames", read_names},
      {"unevaluatedProperties", read_unevaluated},
      {"minProperties", read_least<&Shape::least_members>},
      {"maxProperties", read_most<&Shape::most_members>},
  };
  return table;
}

bool is_nullable(const JsonValue& schema) { return is_true(schema, "nullable"); }

}  // namespace

std::optional<NamedKinds> kinds_named(const JsonValue& schema) {
  const JsonValue& type = *schema.find("type");
  const JsonValue::Array names = type.is_array() ? type.as_array() : JsonValue::Array{type};
  if (names.empty()) return std::nullopt;
  NamedKinds named;
  bool integers = false;
  for (const JsonValue& name : names) {
    if (!name.is_string()) return std::nullopt;
    const auto found = std::find(std::begin(kTypes), std::end(kTypes), name.as_string());
    if (name.as_string() == "integer") {
      integers = true;
    } else if (name.as_string() == "any") {  // of draft 3
      named.kinds.set();
    } else if (found == std::end(kTypes)) {
      return std::nullopt;
    } else {
      named.kinds.set(static_cast<size_t>(found - std::begin(kTypes)));
    }
  }
  named.whole = integers && !named.kinds[kNumber];
  if (integers) named.kinds.set(kNumber);
  if (is_nullable(schema)) named.kinds.set(kNull);
  return named;
}

bool combines(std::string_view keyword) {
  return std::find(std::begin(kCombining), std::end(kCombining), keyword) != std::end(kCombining);
}

bool asserts(std::string_view keyword) { return readers().contains(keyword) || combines(keyword); }

Status SchemaReader::read(const JsonValue& schema, Shape& shape) {
  for (const auto& [name, value] : schema.as_object().members()) {
    const auto reader = readers().find(name);
    if (reader == readers().end()) continue;
    FULMAR_TRY(budget_.take(Budget::Item::work));
    const Status status = reader->second(Keyword{*this, schema, name, value, shape});
    if (!status && !loosens(status.error())) return status;
  }
  return {};
}

bool SchemaReader::loosens(const Error& error) {
  const bool may = error.kind == ErrorKind::unsupported || error.kind == ErrorKind::invalid;
  if (!loosened_ || !may) return false;
  loosened_->add(fmt::format("{}; it is not kept", error.text));
  return true;
}

Error SchemaReader::invalid(const JsonValue& schema, std::string_view keyword, const JsonValue& found,
                            std::string_view wanted) const {
  return invalid_keyword(document_.place_of(schema), keyword, found, wanted);
}

Error SchemaReader::unsupported(const JsonValue& schema, std::string_view keyword,
                                std::string_view why) const {
  return unsupported_keyword(document_.place_of(schema), keyword, why);
}

NumberRange Shape::numbers() const {
  NumberRange narrowed = range;
  for (const Described& one : formats) {
    if (one.format != "int32") continue;
    narrowed.raise_least(Decimal::of("-2147483648"), false);
    narrowed.lower_most(Decimal::of("2147483647"), false);
  }
  return narrowed;
}

bool Shape::impossible() const {
  if (kinds.none() || (values && values->empty())) return true;
  Kinds left = kinds;
  if (range.empty()) left.reset(kNumber);
  if (whole && fractional) left.reset(kNumber);
  if (most_length >= 0 && least_length > most_length) left.reset(kString);
  if (most_items >= 0 && least_items > most_items) left.reset(kArray);
  if (most_members >= 0 && least_members > most_members) left.reset(kObject);
  return left.none();
}

bool Shape::free() const {
  const bool numbers = !whole && !fractional && range.least.endless && range.most.endless && steps.empty();
  const bool texts =
      patterns.empty() && formats.empty() && missed_formats.empty() && least_length == 0 && most_length < 0;
  const bool arrays = lists.empty() && contained.empty() && !unique && least_items == 0 && most_items < 0;
  const bool members_free = objects.empty() && members.empty() && required.empty() && names.empty() &&
                            unevaluated.empty() && least_members == 0 && most_members < 0;
  return kinds.all() && !values && excluded.empty() && numbers && texts && arrays && members_free;
}

}  // namespace fulmar
