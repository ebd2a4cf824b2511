// Depth first over what is still to be read; alternatives make copies of what is known so far.
#include "grammar/schema_expansion.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_values.h"

namespace fulmar {
namespace {

constexpr size_t kMaxShapes = 4096;  // with those of listed values alone
constexpr size_t kMaxOneOf = 256;    // each pair of alternatives is compared
constexpr size_t kWorkPerCopy = 8;

}  // namespace

const JsonValue& nothing_schema() {
  static const JsonValue nothing(false);
  return nothing;
}

Result<std::vector<Shape>> SchemaExpansion::shapes_of(const Demands& demands, const JsonValue* only) {
  Partial start;
  if (only) start.shape.values = {only};
  for (const Demand& one : demands) FULMAR_TRY(demand(start, one, -1));
  Partials open;
  open.push_back(std::move(start));
  std::vector<Shape> shapes;
  size_t wide = 0;  // shapes that do not list their values
  while (!open.empty()) {
    Partial next = std::move(open.back());
    open.pop_back();
    if (next.shape.impossible()) continue;
    if (!next.open.empty() || !next.refused.empty()) {
      FULMAR_TRY(follow(std::move(next), open));
      continue;
    }
    wide += next.shape.values ? 0 : 1;
    find_evaluated(next);
    shapes.push_back(std::move(next.shape));
    if (wide <= kMaxChoices && shapes.size() + open.size() <= 4 * kMaxShapes) continue;
    const JsonValue& where = *demands.front().schema;
    return Error{ErrorKind::unsupported,
                 fmt::format("the schema at '{}' has more than {} alternatives beside those of 'const' and "
                             "'enum', which is the limit",
                             reader_.document().place_of(where), kMaxChoices)};
  }
  return shapes;
}

Status SchemaExpansion::demand(Partial& partial, Demand demand, int32_t from) {
  const JsonValue& schema = *demand.schema;
  if (schema.is_bool()) {
    if (schema.as_bool() != demand.fits) partial.shape.kinds.reset();
    return {};
  }
  if (!schema.is_object()) {
    const Error error{ErrorKind::invalid, fmt::format("the schema at '{}' is {}; wanted an object",
                                                      reader_.document().place_of(schema), describe(schema))};
    if (reader_.loosens(error)) return {};
    return error;
  }
  const auto step = static_cast<int32_t>(partial.steps.size());
  const bool known = std::any_of(partial.steps.begin(), partial.steps.end(),
                                 [&](const Step& one) { return one.demand == demand; });
  partial.steps.push_back({demand, from});
  if (known && leads_to_itself(partial, step)) {
    return Error{ErrorKind::invalid, fmt::format("the schema at '{}' refers to nothing but itself",
                                                 reader_.document().place_of(schema))};
  }
  if (!known) (demand.fits ? partial.open : partial.refused).push_back(step);
  return {};
}

bool SchemaExpansion::leads_to_itself(const Partial& partial, int32_t step) const {
  const Demand& demand = partial.steps[static_cast<size_t>(step)].demand;
  for (int32_t at = partial.steps[static_cast<size_t>(step)].from; at >= 0;) {
    const Step& before = partial.steps[static_cast<size_t>(at)];
    if (before.demand == demand) return true;
    at = before.from;
  }
  return false;
}

// Finds for each schema with 'unevaluated...' those that it and what it combines contain.
void SchemaExpansion::find_evaluated(Partial& partial) {
  for (Shape::Unevaluated& one : partial.shape.unevaluated) {
    for (const Step& step : partial.steps) {
      const Step* at = &step;
      while (at->demand.fits && at->demand.schema != one.schema && at->from >= 0) {
        at = &partial.steps[static_cast<size_t>(at->from)];
      }
      if (at->demand.fits && at->demand.schema == one.schema) one.seen.push_back(step.demand.schema);
    }
  }
}

Status SchemaExpansion::take(const Partial& copied) {
  return reader_.budget().take(
      Budget::Item::work,
      kWorkPerCopy + copied.steps.size() + copied.shape.required.size() + copied.shape.members.size());
}

Status SchemaExpansion::follow(Partial partial, Partials& more) {
  FULMAR_TRY(reader_.budget().take(Budget::Item::work, partial.steps.size() + 1));
  std::vector<int32_t>& list = partial.open.empty() ? partial.refused : partial.open;
  const bool fits = &list == &partial.open;
  const int32_t step = list.front();
  list.erase(list.begin());
  return fits ? follow_fitting(std::move(partial), step, more)
              : follow_refused(std::move(partial), step, more);
}

Status SchemaExpansion::follow_fitting(Partial partial, int32_t step, Partials& more) {
  const JsonValue& schema = partial.schema_of(step);
  const bool whole_reference = schema.find("$ref") && !reader_.document().counts_beside_reference();
  if (!whole_reference) FULMAR_TRY(reader_.read(schema, partial.shape));
  const auto known = static_cast<ptrdiff_t>(partial.open.size());
  Partials partials;
  partials.push_back(std::move(partial));
  for (const auto& [keyword, value] : schema.as_object().members()) {
    if (!combines(keyword) || (whole_reference && keyword != "$ref")) continue;
    const Status status = combine(keyword, schema, step, partials);
    if (!status && !reader_.loosens(status.error())) return status;
  }
  // Depth first, so that members are listed in the order of the document.
  for (Partial& one : partials) std::rotate(one.open.begin(), one.open.begin() + known, one.open.end());
  // The first alternative is looked at first.
  std::move(partials.rbegin(), partials.rend(), std::back_inserter(more));
  return {};
}

Status SchemaExpansion::combine(std::string_view keyword, const JsonValue& schema, int32_t step,
                                Partials& partials) {
  const JsonValue& value = *schema.find(keyword);
  const auto demand_all = [&](Demand one) -> Status {
    for (Partial& partial : partials) FULMAR_TRY(demand(partial, one, step));
    return {};
  };
  if (keyword.ends_with("ef")) {  // $ref and its kin
    const auto meant = reader_.document().referred(schema, keyword);
    if (meant) return demand_all({*meant, true});
    return reader_.unsupported(schema, keyword,
                               fmt::format("is {}; {}", describe(value), meant.error().text));
  }
  if (keyword == "not") return demand_all({&value, false});
  if (keyword == "if") return add_condition(schema, step, partials);
  if (keyword.starts_with("depend")) return add_dependencies(schema, value, keyword, step, partials);
  if (!value.is_array() || value.as_array().empty()) {
    return reader_.invalid(schema, keyword, value, "an array of at least one schema");
  }
  if (keyword != "allOf") return add_alternatives(value.as_array(), keyword, schema, step, partials);
  for (const JsonValue& part : value.as_array()) FULMAR_TRY(demand_all({&part, true}));
  return {};
}

Result<bool> SchemaExpansion::all_apart(const JsonValue::Array& alternatives) {
  for (size_t i = 0; i < alternatives.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      FULMAR_ASSIGN(const bool differ, apart_.apart(alternatives[j], alternatives[i]));
      if (!differ) return false;
    }
  }
  return true;
}

Status SchemaExpansion::add_alternatives(const JsonValue::Array& list, std::string_view keyword,
                                         const JsonValue& schema, int32_t step, Partials& partials) {
  const bool one_only = keyword == "oneOf";
  if (one_only && list.size() > kMaxOneOf) {
    return reader_.unsupported(schema, keyword,
                               fmt::format("holds {} alternatives; at most {} are supported, or use 'anyOf'",
                                           list.size(), kMaxOneOf));
  }
  Partials all;
  for (const Partial& partial : partials) {
    for (const JsonValue& part : list) {
      FULMAR_TRY(take(partial));
      Partial way = partial;
      FULMAR_TRY(demand(way, {&part, true}, step));
      for (const JsonValue& other : list) {
        if (!one_only || &other == &part) continue;
        FULMAR_ASSIGN(const bool differ, apart_.apart(part, other));
        if (!differ) FULMAR_TRY(demand(way, {&other, false}, step));
      }
      if (!way.shape.impossible()) all.push_back(std::move(way));
    }
  }
  if (all.size() > kMaxShapes) {
    return reader_.unsupported(
        schema, keyword,
        fmt::format("makes {} alternatives; at most {} are allowed", all.size(), kMaxShapes));
  }
  partials = std::move(all);
  return {};
}

// Adds an 'if': either it and 'then' fit, or it does not fit and 'else' does.
Status SchemaExpansion::add_condition(const JsonValue& schema, int32_t step, Partials& partials) {
  const JsonValue* condition = schema.find("if");
  const JsonValue* consequence = schema.find("then");
  const JsonValue* otherwise = schema.find("else");
  if (!consequence && !otherwise) return {};
  Partials all;
  for (const Partial& partial : partials) {
    for (const bool met : {true, false}) {
      FULMAR_TRY(take(partial));
      Partial way = partial;
      FULMAR_TRY(demand(way, {condition, met}, step));
      const JsonValue* asked = met ? consequence : otherwise;
      if (asked) FULMAR_TRY(demand(way, {asked, true}, step));
      if (!way.shape.impossible()) all.push_back(std::move(way));
    }
  }
  partials = std::move(all);
  return {};
}

// Adds for each name: either the member is absent, or what depends on it holds.
Status SchemaExpansion::add_dependencies(const JsonValue& schema, const JsonValue& map,
                                         std::string_view keyword, int32_t step, Partials& partials) {
  if (!map.is_object()) return reader_.invalid(schema, keyword, map, "an object");
  for (const auto& [name, asked] : map.as_object().members()) {
    if (asked.is_array() && asked.as_array().empty()) continue;
    Partials all;
    for (const Partial& partial : partials) {
      const auto& required = partial.shape.required;
      const bool there = std::find(required.begin(), required.end(), name) != required.end();
      FULMAR_TRY(take(partial));
      if (!there) {
        Partial without = partial;
        without.shape.members.emplace_back(name, Demand{&nothing_schema(), true});
        all.push_back(std::move(without));
      }
      Partial with = partial;
      with.shape.kinds &= Kinds().set(kObject);
      if (asked.is_array() || asked.is_string()) {
        const JsonValue::Array names = asked.is_array() ? asked.as_array() : JsonValue::Array{};
        if (asked.is_string()) with.shape.required.push_back(asked.as_string());
        for (size_t i = 0; i < names.size(); ++i) {
          if (!names[i].is_string()) return reader_.invalid(schema, keyword, asked, "names");
          with.shape.required.push_back(asked.as_array()[i].as_string());
        }
      } else {
        FULMAR_TRY(demand(with, {&asked, true}, step));
      }
      with.shape.required.push_back(name);
      if (!with.shape.impossible()) all.push_back(std::move(with));
    }
    if (all.size() > kMaxChoices) {
      return reader_.unsupported(
          schema, keyword, fmt::format("makes more than {} alternatives, which is the limit", kMaxChoices));
    }
    partials = std::move(all);
  }
  return {};
}

}  // namespace fulmar
