// Translates bodies of other APIs: takes their members apart and puts them together under the names that
// Fields reads. Pure; knows no route.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/json_value.h"
#include "server/core/fields.h"

namespace fulmar {

class TranslatedBody {
 public:
  // Sets a member; leaves it out when the value is JSON null or a null pointer.
  void set(std::string_view name, const JsonValue* value);
  void set(std::string_view name, JsonValue value);
  void take(const Fields& from, const Field& field) { set(field.name, from.find(field)); }
  // Copies a member under another name.
  void rename(const JsonValue& from, std::string_view name, std::string_view as) { set(as, from.find(name)); }
  // Copies all members of an object except `names`.
  void take_all_but(const JsonValue& from, std::initializer_list<std::string_view> names);

  JsonValue finish() { return JsonValue(JsonObject(std::move(members_))); }

 private:
  std::vector<JsonObject::Member> members_;
};

// Makes a JSON object of these members.
JsonValue json_object(std::vector<JsonObject::Member> members);

}  // namespace fulmar
