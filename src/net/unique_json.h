// Parses JSON of clients of which no member may be lost silently.
#pragma once

#include "net/json.h"

namespace fulmar {

// Parses like parse_json, which returns the last of several members of one name; here an object with a
// repeated name is an error that names it.
Result<JsonValue> parse_unique_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace fulmar
