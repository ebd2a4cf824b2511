// The description of all routes in OpenAPI 3.1: paths and methods from the table of routes, summaries and
// fields from their notes.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "server/core/route.h"

namespace fulmar {

// Returns the whole document.
std::string openapi_json(std::span<const Route> routes);

void openapi(std::shared_ptr<Call> call);  // GET /openapi.json

}  // namespace fulmar
