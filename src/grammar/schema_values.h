// Small questions about JSON values, and the errors that name a keyword and its place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/json_value.h"

namespace fulmar {

// Returns the value as compact JSON.
std::string json_text(const JsonValue& value);
// Returns the same text for all values that JSON Schema counts as equal: names sorted, 1.0 as 1.
std::string same_text(const JsonValue& value);
// Returns whether the number has no fraction.
bool is_whole(const JsonValue& number);

// Returns a count such as the value of minLength; nothing: it is not a whole number from 0 to 1e9.
std::optional<int64_t> count_of(const JsonValue& value);

Error invalid_keyword(const std::string& where, std::string_view keyword, const JsonValue& found,
                      std::string_view wanted);
Error unsupported_keyword(const std::string& where, std::string_view keyword, std::string_view why);

}  // namespace fulmar
