// Types, listed values and required properties distinguish schemas.
#include "grammar/schema_apart.h"

#include <algorithm>
#include <functional>

#include "grammar/schema_values.h"

namespace fulmar {
namespace {

constexpr int kMaxReferences = 16;
constexpr size_t kBytesPerWork = 8;  // of a reference that is followed

size_t kind_of(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::null:
      return kNull;
    case JsonValue::Kind::boolean:
      return kBoolean;
    case JsonValue::Kind::string:
      return kString;
    case JsonValue::Kind::array:
      return kArray;
    case JsonValue::Kind::object:
      return kObject;
    default:
      return kNumber;
  }
}

Kinds kinds_of_values(const JsonValue::Array& values) {
  Kinds kinds;
  for (const JsonValue& value : values) kinds.set(kind_of(value));
  return kinds;
}

}  // namespace

Result<const JsonValue*> SchemaPairs::resolved(const JsonValue& schema) {
  const JsonValue* at = &schema;
  for (int i = 0; i < kMaxReferences; ++i) {
    const JsonValue* reference = at->find("$ref");
    if (!reference) break;
    const size_t length = reference->is_string() ? reference->as_string().size() : 0;
    FULMAR_TRY(budget_.take(Budget::Item::work, length / kBytesPerWork + 1));
    const auto meant = document_.referred(*at, "$ref");
    if (!meant) break;
    at = *meant;
  }
  return at;
}

Result<const SchemaPairs::Facts*> SchemaPairs::facts_of(const JsonValue& schema) {
  const auto [found, fresh] = facts_.emplace(&schema, Facts());
  Facts& facts = found->second;
  if (!fresh) return &facts;
  facts.kinds.set();
  if (schema.find("type")) {
    if (const auto named = kinds_named(schema)) facts.kinds = named->kinds;
  }
  JsonValue::Array values;
  const JsonValue* value = schema.find("const");
  const JsonValue* listed = schema.find("enum");
  if (value) values = {*value};
  if (!value && listed && listed->is_array()) values = listed->as_array();
  FULMAR_TRY(budget_.take(Budget::Item::work, values.size() + 1));
  if (value || (listed && listed->is_array())) {
    facts.kinds &= kinds_of_values(values);
    facts.values.emplace();
    for (const JsonValue& one : values) facts.values->insert(same_text(one));
  }
  const JsonValue* properties = schema.find("properties");
  if (properties && properties->is_object()) facts.properties = &properties->as_object();
  const JsonValue* required = schema.find("required");
  if (required && required->is_array()) {
    FULMAR_TRY(budget_.take(Budget::Item::work, required->as_array().size()));
    for (const JsonValue& name : required->as_array()) {
      if (name.is_string()) facts.required.insert(name.as_string());
    }
  }
  return &facts;
}

Result<bool> SchemaPairs::compare(const JsonValue& first, const JsonValue& second, int depth) {
  FULMAR_TRY(budget_.take(Budget::Item::work));
  FULMAR_ASSIGN(const JsonValue* one_found, resolved(first));
  FULMAR_ASSIGN(const JsonValue* other_found, resolved(second));
  const JsonValue& one = *one_found;
  const JsonValue& other = *other_found;
  if (depth == 0 || &one == &other || !one.is_object() || !other.is_object()) return false;
  const std::pair<const JsonValue*, const JsonValue*> pair =
      std::less<>()(&one, &other) ? std::pair(&one, &other) : std::pair(&other, &one);
  const auto [known, fresh] = known_.emplace(pair, false);  // open pairs count as alike
  if (!fresh) return known->second;
  FULMAR_ASSIGN(const Facts* facts, facts_of(one));
  FULMAR_ASSIGN(const Facts* other_facts, facts_of(other));
  const Kinds shared = facts->kinds & other_facts->kinds;
  if (shared.none()) return known->second = true;
  if (facts->values && other_facts->values) {
    FULMAR_TRY(budget_.take(Budget::Item::work, facts->values->size()));
    return known->second =
               std::none_of(facts->values->begin(), facts->values->end(),
                            [&](const std::string& text) { return other_facts->values->contains(text); });
  }
  const bool objects_only = shared.count() == 1 && shared[kObject];
  if (!objects_only || !facts->properties || !other_facts->properties) return false;
  for (const auto& [name, value] : facts->properties->members()) {
    FULMAR_TRY(budget_.take(Budget::Item::work));
    if (!facts->required.contains(name) || !other_facts->required.contains(name)) continue;
    const JsonValue* counterpart = other_facts->properties->find(name);
    if (!counterpart) continue;
    FULMAR_ASSIGN(const bool differ, compare(value, *counterpart, depth - 1));
    if (differ) return known->second = true;
  }
  return false;
}

}  // namespace fulmar
