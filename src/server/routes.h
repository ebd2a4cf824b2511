// The one table of all routes, and the lookup of a request's entry. A new family adds entries here and a
// folder of its own.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/core/route.h"

namespace fulmar {

std::span<const Route> routes();

// Tells whether a pattern (a route with "/*" at its end) matches a route that administers: keys must name
// such routes in full.
bool covers_administration(std::string_view pattern);

// Tells whether a key with this pattern may use any route at all.
bool opens_a_route(std::string_view pattern);

struct RouteMatch {
  const Route* route = nullptr;  // null: no such path, or no such method on it
  bool path_known = false;
  std::string argument;
};

// Lists the methods that a path supports, with OPTIONS: "GET, HEAD, OPTIONS". Empty for an unknown path.
std::string methods_of(std::string_view path);

// Finds the route of a path, which is decoded and without a trailing slash. HEAD finds the GET route.
RouteMatch find_route(std::string_view method, std::string_view path);

}  // namespace fulmar
