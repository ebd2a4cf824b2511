// Small questions about JSON values and schemas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/json_value.h"

namespace fulmar {

// The value as compact JSON.
std::string json_text(const JsonValue& value);
// As JSON Schema counts: 5.0 is an integer, every integer a number.
bool is_of_type(const JsonValue& value, std::string_view type);

// What `reference`, the value of a "$ref", points at within the document. Errors: unsupported, without the
// place of the reference.
Result<const JsonValue*> find_reference(const JsonValue& document, const JsonValue& reference);

// A count such as minLength, or a number such as minimum; nothing where the keyword is absent. Errors
// (invalid): another type or range. `where`: the schema's place.
Result<std::optional<int64_t>> count_of(const JsonValue& schema, std::string_view keyword,
                                        const std::string& where);
Result<std::optional<double>> number_of(const JsonValue& schema, std::string_view keyword,
                                        const std::string& where);

Error invalid_keyword(const std::string& where, std::string_view keyword, const JsonValue& found,
                      std::string_view wanted);
Error unsupported_keyword(const std::string& where, std::string_view keyword, std::string_view why);
Error nothing_fits(const std::string& where);

}  // namespace fulmar
