#include "server/generate/translated_body.h"

#include <algorithm>

namespace fulmar {

void TranslatedBody::set(std::string_view name, const JsonValue* value) {
  if (value && !value->is_null()) members_.emplace_back(name, *value);
}

void TranslatedBody::set(std::string_view name, JsonValue value) {
  members_.emplace_back(name, std::move(value));
}

void TranslatedBody::take_all_but(const JsonValue& from, std::initializer_list<std::string_view> names) {
  if (!from.is_object()) return;
  for (const auto& [name, value] : from.as_object().members()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) set(name, &value);
  }
}

JsonValue json_object(std::vector<JsonObject::Member> members) {
  return JsonValue(JsonObject(std::move(members)));
}

}  // namespace fulmar
