// The paths that serve three kinds of input: the body decides (docs/http.md, "One path for two families").
#pragma once

#include "net/json_value.h"
#include "server/core/errors.h"

namespace fulmar {

// Which input a body of the shared paths holds.
enum class InputKind : uint8_t { messages, contents, prompt, none, several };
InputKind input_kind(const JsonValue& body);
// Returns the native family for bodies with `contents`, even an empty list, unless they hold messages or a
// prompt, too.
Family family_of_input(const JsonValue& body);

}  // namespace fulmar
