// The one table of all routes, and finding the entry of a request. Every further family adds lines here and a
// file of its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "net/json_value.h"
#include "server/auth.h"
#include "server/errors.h"

namespace fulmar {

class Call;

// Where work is done. IO threads answer what takes next to nothing; whatever grows with what a client sent or
// stored is the pool's; session threads wait for the engine and for the disk.
enum class ThreadKind : uint8_t { io, pool, sessions };

// Answers the call, at once or later, through respond, fail or a Reply. Runs on an IO thread (GET) or on the
// pool, and must not wait there; routes that wait say so in the table and run on session threads, with their
// body read.
using RouteHandler = void (*)(std::shared_ptr<Call>);

struct Route {
  std::string_view method;
  std::string_view path;  // a "*" in it stands for any text of at least one byte: the call's argument
  Family family;          // of errors, until the handler knows better
  Access access;
  RouteHandler handle;
  bool waits = false;  // for the engine or the disk
  // For paths that serve two families; null: `family` holds.
  Family (*family_of_body)(const JsonValue& body) = nullptr;
  bool takes_bytes = false;  // the body is no JSON: the call's bytes()
};

std::span<const Route> routes();

// The path of a route with `argument` in place of its "*".
std::string path_with(std::string_view path, std::string_view argument);

// Whether the pattern of a key fits a route that administers, which no pattern opens.
bool covers_administration(std::string_view pattern);

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
