// Describes all routes in OpenAPI 3.1: paths and methods come from the table of routes; summaries, fields and
// answers from their notes.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "server/core/route.h"
#include "server/core/shape.h"

namespace fulmar {

inline constexpr JsonShape kDocument{
    "openapi", R"({"openapi":"string","info":{"*":"any"},"paths":{"*":"any"},"components":{"*":"any"}})"};
// Returns the whole document.
std::string openapi_json(std::span<const Route> routes);

void openapi(std::shared_ptr<Call> call);  // GET /openapi.json

}  // namespace fulmar
