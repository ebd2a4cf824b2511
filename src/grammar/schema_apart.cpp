// Types, listed values and required properties tell schemas apart.
#include "grammar/schema_apart.h"

#include <algorithm>
#include <functional>

#include "grammar/schema_values.h"

namespace fulmar {
namespace {

constexpr int kMaxReferences = 16;
constexpr size_t kBytesPerWork = 8;  // of a reference that is followed
constexpr std::string_view kKinds[] = {"null", "boolean", "number", "string", "array", "object"};
constexpr size_t kNull = 0;
constexpr size_t kObject = 5;

std::bitset<6> kinds_named(const JsonValue& type) {
  std::bitset<6> kinds;
  const JsonValue::Array names = type.is_array() ? type.as_array() : JsonValue::Array{type};
  for (const JsonValue& name : names) {
    if (!name.is_string()) continue;
    const std::string_view kind =
        name.as_string() == "integer" ? "number" : std::string_view(name.as_string());
    for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = kinds[i] || kKinds[i] == kind;
  }
  return kinds;
}

std::bitset<6> kinds_of_values(const JsonValue::Array& values) {
  std::bitset<6> kinds;
  for (const JsonValue& value : values) {
    for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = kinds[i] || is_of_type(value, kKinds[i]);
  }
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
    const auto meant = find_reference(document_, *reference);
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
  if (const JsonValue* type = schema.find("type")) {
    facts.kinds = kinds_named(*type);
    const JsonValue* nullable = schema.find("nullable");
    if (nullable && nullable->is_bool() && nullable->as_bool()) facts.kinds.set(kNull);
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
    for (const JsonValue& one : values) facts.values->insert(json_text(one));
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
  const std::bitset<6> shared = facts->kinds & other_facts->kinds;
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
