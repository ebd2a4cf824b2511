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

// The shape of a family's errors, with the facts that one of them has (error_json).
const JsonShape& error_shape(Family family);

// A 400 for a value that cannot be used.
ApiError bad_value(std::string text, std::string param = {}, std::string code = "invalid_value");
// Status and code by the kind of error; the text is kept.
ApiError api_error(const Error& error);

// Says that a store could not tell what it has, or take what it was given: never that there is none.
ApiError store_failed(std::string_view store);

// The error's JSON text: a whole body, or the payload of an event in a stream that has begun.
std::string error_json(Family family, const ApiError& error);
// With Retry-After where trying again makes sense.
HttpResponse error_response(Family family, const ApiError& error);
// For an unknown path, readable for clients of every family: 404, or 405 when `methods` lists what the path
// takes
// ("GET, POST").
HttpResponse unrouted_response(const std::string& methods);

// The family to answer in when nothing but the path is known.
Family family_of_path(std::string_view path);

}  // namespace fulmar
