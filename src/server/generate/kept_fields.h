// The one rule for fields that a route does not keep: whatever any API that Fulmar speaks has as a field of a
// generating request is kept, refused by name, or taken and told of; keys that nobody knows are told of.
// Knows no call.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/json_value.h"
#include "server/core/errors.h"

namespace fulmar {

// What becomes of a field where a route does not keep it.
enum class Unkept : uint8_t {
  refused,
  told,     // in the warnings of the answer
  checked,  // nothing: whichever of its words is said, the answer is the same
};

// `of.member` for a member of an object.
struct KnownField {
  std::string_view name;
  Unkept way = Unkept::refused;
  std::string_view neutral =
      {};                       // JSON of the value that asks for nothing; empty: false, 0 and what is empty
  std::string_view words = {};  // " a b ": the only texts that it may be; empty: any
};

// All fields of all generating routes, and those that other servers know alone.
std::span<const KnownField> known_fields();

// Whether a route keeps a field of its body. `path`: as in the table of routes; on the paths that serve three
// kinds of input, `body` tells which.
bool keeps_field(std::string_view path, const JsonValue& body, std::string_view name);

struct UnkeptFields {
  std::optional<ApiError> fault;
  std::vector<std::string> warnings;
};

// Looks at the body of a request for that route, and at what lies in its objects `params` and, of Ollama's,
// `options`. Two spellings of one thing that differ are a fault, too.
UnkeptFields check_fields(std::string_view path, const JsonValue& body);

}  // namespace fulmar
