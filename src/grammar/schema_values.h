// Small questions about JSON values and schemas.
#pragma once

#include <string>
#include <string_view>

#include "net/json_value.h"

namespace fulmar {

// The value as compact JSON.
std::string json_text(const JsonValue& value);
// As JSON Schema counts: 5.0 is an integer, every integer a number.
bool is_of_type(const JsonValue& value, std::string_view type);

}  // namespace fulmar
