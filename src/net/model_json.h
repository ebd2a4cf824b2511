// JSON that a model wrote, as a grammar lets it: deeper, and with longer numbers than requests may hold.
#pragma once

#include "net/json.h"

namespace fulmar {

constexpr JsonLimits kModelJson{.max_depth = 1024};

// As parse_json within kModelJson, but whole numbers beyond 64 bits are read as the nearest finite doubles.
Result<JsonValue> parse_model_json(std::string_view text);

}  // namespace fulmar
