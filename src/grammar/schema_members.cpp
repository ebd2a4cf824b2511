// Scopes of names and of places.
#include "grammar/schema_members.h"

#include <algorithm>

namespace fulmar {

void settle(Demands& demands) {
  std::erase_if(demands, [](const Demand& demand) {
    return demand.schema->is_bool() && demand.schema->as_bool() == demand.fits;
  });
  std::sort(demands.begin(), demands.end());
  demands.erase(std::unique(demands.begin(), demands.end()), demands.end());
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
  size_t work = shape.members.size() + 1;
  for (const Scope& scope : scopes_) {
    work += scope.patterns.size() * (name.size() + 1) + 1;
    const JsonValue* own = scope.properties ? scope.properties->find(name) : nullptr;
    if (own) demands.push_back({own, true});
    bool matched = own != nullptr;
    for (const Scope::Matching& pattern : scope.patterns) {
      if (!pattern.names->takes(name)) continue;
      matched = true;
      demands.push_back({pattern.value, true});
    }
    if (!matched && scope.rest) demands.push_back({scope.rest, true});
  }
  for (const auto& [member, demand] : shape.members) {
    if (member == name) demands.push_back(demand);
  }
  FULMAR_TRY(budget.take(Budget::Item::work, work));
  settle(demands);
  return demands;
}

bool SchemaMembers::describes_rest() const {
  return std::any_of(scopes_.begin(), scopes_.end(),
                     [](const Scope& scope) { return scope.rest != nullptr; });
}

SchemaElements::SchemaElements(const Shape& shape) {
  for (const JsonValue* schema : shape.lists) {
    List list;
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
  for (const List& list : lists_) {
    const bool named = list.listed && index < list.listed->size();
    const JsonValue* schema = named ? &(*list.listed)[index] : list.rest;
    if (schema) demands.push_back({schema, true});
  }
  settle(demands);
  return demands;
}

}  // namespace fulmar
