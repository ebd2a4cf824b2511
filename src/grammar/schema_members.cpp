// Scopes of names and of places.
#include "grammar/schema_members.h"

#include <algorithm>
#include <set>

namespace fulmar {

void settle(Demands& demands) {
  std::set<Demand> met;
  std::erase_if(demands, [&](const Demand& demand) {
    const bool says_nothing = demand.schema->is_bool() && demand.schema->as_bool() == demand.fits;
    return says_nothing || !met.insert(demand).second;
  });
  const auto impossible = std::find_if(demands.begin(), demands.end(),
                                       [](const Demand& demand) { return demand.schema->is_bool(); });
  if (impossible != demands.end()) demands = {*impossible};
}

bool nothing_fits(const Demands& demands) {
  return std::any_of(demands.begin(), demands.end(), [](const Demand& demand) {
    return demand.schema->is_bool() && demand.schema->as_bool() != demand.fits;
  });
}

Result<SchemaMembers> SchemaMembers::of(const Shape& shape, SchemaReader& reader, SchemaTexts& texts) {
  SchemaMembers members;
  for (const JsonValue* schema : shape.objects) {
    Scope& scope = members.scopes_.emplace_back(Scope{schema, {}, {}, {}});
    const JsonValue* properties = schema->find("properties");
    if (properties && properties->is_object()) scope.properties = properties;
    scope.rest = schema->find("additionalProperties");
    const JsonValue* patterns = schema->find("patternProperties");
    if (!patterns || !patterns->is_object()) continue;
    for (const auto& [pattern, value] : patterns->as_object().members()) {
      auto names = texts.matching(*schema, "patternProperties", pattern);
      if (!names && reader.loosens(names.error())) continue;
      if (!names) return names.error();
      scope.patterns.push_back({*names, &value});
    }
  }
  return members;
}

Result<Demands> SchemaMembers::of_name(std::string_view name, const Shape& shape, Budget& budget) const {
  Demands demands;
  std::vector<const JsonValue*> speaking;
  size_t work = shape.members.size() + 1;
  for (const Scope& scope : scopes_) {
    work += scope.patterns.size() * (name.size() + 1) + 1;
    const JsonValue* own = scope.properties ? scope.properties->find(name) : nullptr;
    if (own) demands.push_back({own, true});
    bool matched = own != nullptr;
    if (own || scope.rest) speaking.push_back(scope.schema);
    for (const Scope::Matching& pattern : scope.patterns) {
      if (!pattern.names->takes(name)) continue;
      matched = true;
      speaking.push_back(scope.schema);
      demands.push_back({pattern.value, true});
    }
    if (!matched && scope.rest) demands.push_back({scope.rest, true});
  }
  for (const auto& [member, demand] : shape.members) {
    if (member == name) demands.push_back(demand);
  }
  FULMAR_TRY(budget.take(Budget::Item::work, work));
  add_unevaluated(shape, speaking, demands);
  settle(demands);
  return demands;
}

void SchemaMembers::add_unevaluated(const Shape& shape, const std::vector<const JsonValue*>& speaking,
                                    Demands& demands) const {
  for (const Shape::Unevaluated& one : shape.unevaluated) {
    const JsonValue* value = one.schema->find("unevaluatedProperties");
    const bool spoken_of = std::any_of(one.seen.begin(), one.seen.end(), [&](const JsonValue* seen) {
      const bool own = seen != one.schema && seen->find("unevaluatedProperties");
      return own || std::find(speaking.begin(), speaking.end(), seen) != speaking.end();
    });
    if (value && !spoken_of) demands.push_back({value, true});
  }
}

bool SchemaMembers::describes_rest() const {
  return std::any_of(scopes_.begin(), scopes_.end(),
                     [](const Scope& scope) { return scope.rest != nullptr; });
}

void SchemaElements::read() {
  for (const Shape::Unevaluated& one : shape_.unevaluated) {
    describes_rest = describes_rest || one.schema->find("unevaluatedItems");
  }
  for (const JsonValue* schema : shape_.lists) {
    List list{schema};
    const JsonValue* prefix = schema->find("prefixItems");
    const JsonValue* items = schema->find("items");
    if (items && items->is_array()) {
      list.listed = &items->as_array();
      list.rest = schema->find("additionalItems");
    } else {
      if (prefix && prefix->is_array()) list.listed = &prefix->as_array();
      list.rest = items;
    }
    if (list.listed) listed = std::max(listed, list.listed->size());
    describes_rest = describes_rest || list.rest;
    lists_.push_back(list);
  }
}

Demands SchemaElements::at(size_t index) const {
  Demands demands;
  std::vector<const JsonValue*> speaking;
  for (const List& list : lists_) {
    const bool named = list.listed && index < list.listed->size();
    const JsonValue* schema = named ? &(*list.listed)[index] : list.rest;
    if (!schema) continue;
    demands.push_back({schema, true});
    speaking.push_back(list.schema);
  }
  for (const Shape::Unevaluated& one : shape_.unevaluated) {
    const JsonValue* value = one.schema->find("unevaluatedItems");
    const bool spoken_of = std::any_of(one.seen.begin(), one.seen.end(), [&](const JsonValue* seen) {
      const bool own = seen != one.schema && seen->find("unevaluatedItems");
      return own || std::find(speaking.begin(), speaking.end(), seen) != speaking.end();
    });
    if (value && !spoken_of) demands.push_back({value, true});
  }
  settle(demands);
  return demands;
}

}  // namespace fulmar
