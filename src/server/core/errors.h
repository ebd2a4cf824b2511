// Failures as clients see them: one shape of error body for each family of routes (docs/http.md, "Errors").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "net/http_message.h"
#include "server/core/shape.h"

namespace fulmar {

// Which clients a route serves; it decides the shape of its errors.
enum class Family : uint8_t {
  openai,     // {"error":{"message","type","param","code"}}
  native,     // {"error":"text"}
  admin,      // {"detail":"text"}
  anthropic,  // {"type":"error","error":{"type","message"}}
};

struct ApiError {
  int status = 400;
  std::string text;
  std::string param;  // the field at fault, shown by the openai family only; empty: null
  std::string code;   // the openai family's word for it; empty: null
  // Further members at the top of the body, in every family.
  std::vector<std::pair<std::string, int64_t>> facts;
  int64_t retry_after = 0;  // seconds, of a 429
};

// Returns the JSON shape of a family's errors, for /openapi.json.
const JsonShape& error_shape(Family family);

// Makes a 400 for a value that cannot be used.
ApiError bad_value(std::string text, std::string param = {}, std::string code = "invalid_value");
// Maps the kind of an error to a status and a code; keeps the text.
ApiError api_error(const Error& error);

// Makes a 503 for a store that could not be read or written. Differs from a 404: whether the item exists is
// unknown.
ApiError store_failed(std::string_view store);

// Returns the error as JSON: a whole body, or the payload of an event when a stream has begun.
std::string error_json(Family family, const ApiError& error);
// Makes the answer to a failed request, with Retry-After where a retry may succeed.
HttpResponse error_response(Family family, const ApiError& error);
// Makes the answer for an unknown path, in a shape that clients of every family can read: 404, or 405 when
// `methods` lists those that the path supports ("GET, POST").
HttpResponse unrouted_response(const std::string& methods);

// Guesses the family of errors from the path alone, when no route has been found.
Family family_of_path(std::string_view path);

}  // namespace fulmar
