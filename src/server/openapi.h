// The description of all routes in OpenAPI 3.1: paths and methods from the table of routes, summaries and
// fields from a table of its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

class Call;

// A field of a request's body. `type` as JSON Schema has it; empty: several.
struct FieldNote {
  std::string_view name, type, text;
};

struct RouteNote {
  std::string_view path;  // as in the table of routes
  std::string_view summary;
  std::vector<std::span<const FieldNote>> fields;  // of its POST body; several groups
};

// Null for a path that has none.
const RouteNote* find_route_note(std::string_view path);

// The paths that have one.
std::vector<std::string_view> route_note_paths();

// The whole document.
std::string openapi_json();

void openapi(std::shared_ptr<Call> call);  // GET /openapi.json

}  // namespace fulmar
