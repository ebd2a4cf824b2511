// Parses JSON requests with limits, and the lenient scalar forms that clients send (docs/http.md,
// "Requests"). The library is used only in json.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/json_value.h"

namespace fulmar {

struct JsonLimits {
  size_t max_bytes = size_t{64} << 20;
  size_t max_depth = 64;                // of nested arrays and objects
  size_t max_values = size_t{4} << 20;  // values in the whole document; bounds the memory of the tree
  // Of several members of one name the last counts. Only for texts of which nobody acts on a member that is
  // lost; else they are an error, which names the member and its object.
  bool doubled_names = false;
};

// Parses a document. Every error is of kind invalid and begins "Invalid JSON". Also refuses invalid UTF-8,
// lone surrogates, whole numbers beyond 64 bits, and anything after the document.
Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits = {});

// Returns what a lenient client meant, or nothing: 5, 5.0, "5", "5.0" as an integer; 1, 1.5, "1", "1.0" as a
// number; true, "true", "True", "false", "False", 0, 1 as a boolean. Strings must hold the number and nothing
// else. Numbers must be finite.
std::optional<bool> lenient_bool(const JsonValue& value);
std::optional<int64_t> lenient_int(const JsonValue& value);
std::optional<double> lenient_number(const JsonValue& value);

// Reads a field of `object`: nothing when it is absent or null, or `object` is not an object. Error invalid:
// it has another type or is outside [least, most]; names the field, what was found and what was wanted.
Result<std::optional<bool>> get_bool(const JsonValue& object, std::string_view field);
Result<std::optional<int64_t>> get_int(const JsonValue& object, std::string_view field,
                                       int64_t least = std::numeric_limits<int64_t>::min(),
                                       int64_t most = std::numeric_limits<int64_t>::max());
Result<std::optional<double>> get_number(const JsonValue& object, std::string_view field,
                                         double least = std::numeric_limits<double>::lowest(),
                                         double most = std::numeric_limits<double>::max());
Result<std::optional<std::string>> get_string(const JsonValue& object, std::string_view field);
// Returns a pointer into `object`; null when the field is absent. Errors as above.
Result<const JsonValue::Array*> get_array(const JsonValue& object, std::string_view field);
Result<const JsonObject*> get_object(const JsonValue& object, std::string_view field);

}  // namespace fulmar
