// Schemas that a value must not fit: it misses one of their keywords, and for each there are ways to do so.
// Ways that a shape cannot express are left out, so that fewer values are accepted, never more.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/formats.h"
#include "grammar/schema_expansion.h"
#include "grammar/schema_values.h"

namespace fulmar {
namespace {

constexpr size_t kMaxMade = 256;  // ways to miss one schema, before they are chosen among

Shape only(const Shape& shape, size_t kind) {
  Shape narrowed = shape;
  narrowed.kinds &= Kinds().set(kind);
  return narrowed;
}

int64_t smaller(int64_t most, int64_t bound) { return most < 0 ? bound : std::min(most, bound); }

// Two keywords that bound a number of things in values of one kind.
struct CountBounds {
  std::string_view least_word, most_word;
  size_t kind;
  int64_t Shape::*least;
  int64_t Shape::*most;
};
constexpr CountBounds kCountBounds[] = {
    {"minLength", "maxLength", kString, &Shape::least_length, &Shape::most_length},
    {"minItems", "maxItems", kArray, &Shape::least_items, &Shape::most_items},
    {"minProperties", "maxProperties", kObject, &Shape::least_members, &Shape::most_members}};

const CountBounds* count_bounds_of(std::string_view keyword) {
  const auto found = std::find_if(
      std::begin(kCountBounds), std::end(kCountBounds),
      [&](const CountBounds& one) { return keyword == one.least_word || keyword == one.most_word; });
  return found == std::end(kCountBounds) ? nullptr : found;
}

// Narrows a shape to fewer things than `count`, if that is the least, or to more, if it is the most.
void miss_count(const CountBounds& bounds, bool least, int64_t count, Shape& shape) {
  if (!least) {
    shape.*bounds.least = std::max(shape.*bounds.least, count + 1);
    return;
  }
  if (count == 0) shape.kinds.reset();
  shape.*bounds.most = smaller(shape.*bounds.most, count - 1);
}

}  // namespace

// Removes the listed values that fit the refused schema, trying them one by one.
Status SchemaExpansion::refuse_values(Partial& partial, const JsonValue& schema) {
  std::vector<const JsonValue*> kept;
  for (const JsonValue* value : *partial.shape.values) {
    FULMAR_ASSIGN(const bool fitting, fits(*value, Demands{{&schema, true}}));
    if (!fitting) kept.push_back(value);
  }
  partial.shape.values = std::move(kept);
  return {};
}

// Returns whether the schema forbids a required member, or requires a forbidden one.
bool SchemaExpansion::surely_missed(const Shape& shape, const JsonValue& schema) const {
  const Kinds object = Kinds().set(kObject);
  if (shape.kinds != object) return false;
  const JsonValue* required = schema.find("required");
  for (const auto& [name, demand] : shape.members) {
    if (demand.schema != &nothing_schema() || !required || !required->is_array()) continue;
    for (const JsonValue& one : required->as_array()) {
      if (one.is_string() && one.as_string() == name) return true;
    }
  }
  const JsonValue* more = schema.find("additionalProperties");
  const bool closed = more && more->is_bool() && !more->as_bool() && !schema.find("patternProperties");
  const JsonValue* listed = schema.find("properties");
  return closed && std::any_of(shape.required.begin(), shape.required.end(),
                               [&](std::string_view name) { return !listed || !listed->find(name); });
}

Status SchemaExpansion::follow_refused(Partial partial, int32_t step, Partials& more) {
  const JsonValue& schema = partial.schema_of(step);
  const bool whole_reference = schema.find("$ref") && !reader_.document().counts_beside_reference();
  if (partial.shape.values || (!whole_reference && surely_missed(partial.shape, schema))) {
    if (partial.shape.values) FULMAR_TRY(refuse_values(partial, schema));
    more.push_back(std::move(partial));
    return {};
  }
  Partials ways;
  bool kept = true;  // every keyword can be missed in a way that a shape tells
  const auto miss = [&](bool members) -> Status {
    for (const auto& [keyword, value] : schema.as_object().members()) {
      if (!asserts(keyword) || (whole_reference && keyword != "$ref")) continue;
      if ((keyword == "properties") != members) continue;
      const Status status = miss_keyword(keyword, value, partial, step, ways, kept);
      if (!status && !reader_.loosens(status.error())) return status;
      kept = kept && status;
    }
    return {};
  };
  // Members that are not there tell schemas apart more plainly than their values.
  FULMAR_TRY(miss(false));
  FULMAR_TRY(miss(true));
  std::erase_if(ways, [](const Partial& way) { return way.shape.impossible(); });
  if (ways.empty() && !kept) {
    const Error error = reader_.unsupported(
        schema, "not",
        "or a 'oneOf' or 'if' that asks for it refuses a schema whose opposite cannot be told");
    if (!reader_.loosens(error)) return error;
    ways.push_back(std::move(partial));
  }
  const size_t most = ways.empty() ? 1 : std::max<size_t>(1, ways.front().ways);
  if (ways.size() > most) ways.resize(most);
  for (Partial& way : ways) way.ways = std::max<size_t>(1, most / ways.size());
  std::move(ways.rbegin(), ways.rend(), std::back_inserter(more));
  return {};
}

Status SchemaExpansion::miss_keyword(std::string_view keyword, const JsonValue& value, const Partial& from,
                                     int32_t step, Partials& ways, bool& kept) {
  if (combines(keyword)) return miss_combination(keyword, value, from, step, ways, kept);
  const JsonValue& schema = from.schema_of(step);
  FULMAR_TRY(take(from));
  const auto way = [&](size_t kind) -> Shape& {
    Partial& made = ways.emplace_back(from);
    made.shape = only(made.shape, kind);
    return made.shape;
  };
  const auto count = count_of(value);
  const CountBounds* bounds = count_bounds_of(keyword);
  if (bounds && count) {
    miss_count(*bounds, keyword == bounds->least_word, *count, way(bounds->kind));
  } else if (keyword == "type") {
    const auto named = kinds_named(schema);
    if (!named) return reader_.invalid(schema, keyword, value, "types");
    ways.emplace_back(from).shape.kinds &= ~named->kinds;
    if (named->whole) way(kNumber).fractional = true;
  } else if (keyword == "const") {
    ways.emplace_back(from).shape.excluded.push_back(&value);
  } else if (keyword == "enum" && value.is_array()) {
    Shape& shape = ways.emplace_back(from).shape;
    for (const JsonValue& one : value.as_array()) shape.excluded.push_back(&one);
  } else if (keyword == "minimum" || keyword == "exclusiveMinimum" || keyword == "maximum" ||
             keyword == "exclusiveMaximum") {
    Shape asked;  // both bounds of the schema count
    FULMAR_TRY(reader_.read(schema, asked));
    Shape& shape = way(kNumber);
    const bool lower = keyword.ends_with("inimum");
    if (lower) shape.range.lower_most(asked.range.least, !asked.range.above_least);
    if (!lower) shape.range.raise_least(asked.range.most, !asked.range.below_most);
  } else if (keyword == "pattern" && value.is_string()) {
    way(kString).patterns.push_back({&schema, false});
  } else if (keyword == "items" && !value.is_array() && !schema.find("prefixItems") &&
             from.shape.contained.empty()) {
    way(kArray).contained.push_back({{&value, false}, 1, -1, &schema});
  } else if (keyword == "required" && value.is_array()) {
    for (const JsonValue& name : value.as_array()) {
      if (name.is_string())
        way(kObject).members.emplace_back(name.as_string(), Demand{&nothing_schema(), true});
    }
  } else if (keyword == "properties" && value.is_object()) {
    for (const auto& [name, part] : value.as_object().members()) {
      if (part.is_bool() && part.as_bool()) continue;
      if (part.is_object() && part.as_object().members().empty()) continue;
      if (ways.size() > kMaxMade) break;
      FULMAR_TRY(take(from));
      Shape& shape = way(kObject);
      shape.required.push_back(name);
      shape.members.emplace_back(name, Demand{&part, false});
    }
  } else if (keyword == "additionalProperties") {
    FULMAR_TRY(miss_unlisted(value, schema, from, ways));
    kept = kept && value.is_bool() && value.as_bool();
  } else if (keyword == "format" && value.is_string() && widest_format_texts(value.as_string())) {
    way(kString).missed_formats.push_back(value.as_string());
    kept = false;  // some take it for an annotation
  } else {
    kept = false;
  }
  return {};
}

// Adds ways in which an unlisted member, of a name known so far, has a value that the schema refuses.
Status SchemaExpansion::miss_unlisted(const JsonValue& value, const JsonValue& schema, const Partial& from,
                                      Partials& ways) {
  if ((value.is_bool() && value.as_bool()) || schema.find("patternProperties")) return {};
  const JsonValue* listed = schema.find("properties");
  const auto add = [&](std::string_view name) -> Status {
    if ((listed && listed->find(name)) || ways.size() > kMaxMade) return {};
    FULMAR_TRY(take(from));
    Shape& shape = ways.emplace_back(from).shape;
    shape.kinds &= Kinds().set(kObject);
    shape.required.push_back(name);
    shape.members.emplace_back(name, Demand{&value, false});
    return {};
  };
  for (const std::string_view name : from.shape.required) FULMAR_TRY(add(name));
  for (const JsonValue* object : from.shape.objects) {
    const JsonValue* properties = object->find("properties");
    if (!properties || !properties->is_object()) continue;
    for (const auto& [name, part] : properties->as_object().members()) FULMAR_TRY(add(name));
  }
  return {};
}

Status SchemaExpansion::miss_combination(std::string_view keyword, const JsonValue& value,
                                         const Partial& from, int32_t step, Partials& ways, bool& kept) {
  const JsonValue& schema = from.schema_of(step);
  const auto refuse = [&](const JsonValue& part) -> Status {
    FULMAR_TRY(take(from));
    return demand(ways.emplace_back(from), {&part, false}, step);
  };
  if (keyword.ends_with("ef")) {
    const auto meant = reader_.document().referred(schema, keyword);
    if (meant) return refuse(**meant);
    return reader_.unsupported(schema, keyword,
                               fmt::format("is {}; {}", describe(value), meant.error().text));
  }
  if (keyword == "not") return demand(ways.emplace_back(from), {&value, true}, step);
  if (keyword == "allOf" && value.is_array()) {
    for (const JsonValue& part : value.as_array()) FULMAR_TRY(refuse(part));
    return {};
  }
  const bool none = keyword == "anyOf" || keyword == "oneOf";
  if (none && value.is_array()) {
    Partial& way = ways.emplace_back(from);
    for (const JsonValue& part : value.as_array()) FULMAR_TRY(demand(way, {&part, false}, step));
    if (keyword == "oneOf") {
      FULMAR_ASSIGN(const bool apart, all_apart(value.as_array()));
      kept = kept && apart;
    }
    return {};
  }
  kept = false;
  return {};
}

}  // namespace fulmar
