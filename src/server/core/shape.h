// Shapes of answers, declared beside the code that writes them. /openapi.json is made from them, and the
// tests check every answer against them.
#pragma once

#include <string_view>

#include "server/core/few.h"

namespace fulmar {

// The shape of a JSON value, as JSON: "string", "integer", "number", "boolean", "any" and null are types,
// "=text" is that text, "a|b" either; "@name" is the shape of that name among `parts`. {"name": ...,
// "other?": ...} has members, the second not always; {"*": ...} any members of one shape; {"|": [...]} is one
// of several, [...] a list of what it holds.
struct JsonShape {
  std::string_view name, text;
  Few<JsonShape, 5> parts = {};
};

// What a route answers where it succeeds; one of the shapes each.
struct Answers {
  Few<JsonShape, 3> whole = {};                // as JSON
  Few<JsonShape, 4> events = {};               // each event of a stream; empty: it does not stream
  std::string_view type = "application/json";  // of a whole answer; another one has no shape
  bool lines = false;                          // the stream is JSON texts in lines
  std::string_view statuses = {};  // of errors, beside those by its access and its fields: "404 409"
  Few<JsonShape, 1> refusal = {};  // that errors may have besides their family's
};

}  // namespace fulmar
