// JSON that a model wrote, as a grammar allows it: deeper, and with longer numbers, than in requests.
#pragma once

#include "net/json.h"

namespace fulmar {

constexpr JsonLimits kModelJson{.max_depth = 1024, .doubled_names = true};

// Parses like parse_json within kModelJson, but reads whole numbers beyond 64 bits as the nearest doubles.
Result<JsonValue> parse_model_json(std::string_view text);

}  // namespace fulmar
