// JSON of clients, of which nothing may be lost without a word.
#pragma once

#include "net/json.h"

namespace fulmar {

// As parse_json, which gives the last of several members of one name; here an object that holds a name twice
// is an error, too, and names it.
Result<JsonValue> parse_unique_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace fulmar
