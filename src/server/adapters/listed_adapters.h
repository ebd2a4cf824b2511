// llama.cpp's list of adapters, as a field of a request and as the body of a route.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "net/json_value.h"
#include "server/adapters/adapter_table.h"
#include "server/core/errors.h"

namespace fulmar {

// Reads a list of objects of `id` and `scale`, of at most 1,024; errors call the value `name`.
std::variant<std::vector<ListedAdapter>, ApiError> read_listed(std::string_view name, const JsonValue& value);

}  // namespace fulmar
