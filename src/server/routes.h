// The one table of all routes, and finding the entry of a request. Every further family adds lines here and a
// file of its own.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/core/route.h"

namespace fulmar {

std::span<const Route> routes();

// Whether the pattern of a key fits a route that administers, which no pattern opens.
bool covers_administration(std::string_view pattern);

// Whether there is a route that a key with the pattern may use.
bool opens_a_route(std::string_view pattern);

struct RouteMatch {
  const Route* route = nullptr;  // null: no such path, or no such method on it
  bool path_known = false;
  std::string argument;
};

// The methods that a path takes, with OPTIONS: "GET, HEAD, OPTIONS". Empty for an unknown path.
std::string methods_of(std::string_view path);

// `path`: decoded, without a trailing slash. HEAD finds the GET route.
RouteMatch find_route(std::string_view method, std::string_view path);

}  // namespace fulmar
