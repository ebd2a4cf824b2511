// What /openapi.json and the rule of kept fields know of each route beside its line in the table: a summary
// and the fields of its body.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace fulmar {

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

}  // namespace fulmar
