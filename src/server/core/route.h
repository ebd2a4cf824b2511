// One entry of the table of routes: its handler, who may call it, and which threads do its work.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "net/json_value.h"
#include "server/core/auth.h"
#include "server/core/errors.h"
#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

// Where work is done. IO threads answer what takes next to nothing; whatever grows with what a client sent or
// stored is the pool's; session threads wait for the engine and for the disk.
enum class ThreadKind : uint8_t { io, pool, sessions };

// Answers the call, at once or later, through respond, fail or a Reply. Runs on an IO thread (GET) or on the
// pool, and must not wait there; routes that wait say so in the table and run on session threads, with their
// body read.
using RouteHandler = void (*)(std::shared_ptr<Call>);

// What a handler does, for /openapi.json, docs/api.md and the rule of kept fields (kept_fields.h).
struct RouteNote {
  RouteHandler handle;
  std::string_view summary;
  FieldGroups fields = {};  // of its body, beside kBodyFields
  Answers answers = {};
  // Names of the parameters of its URL that it reads; those after a "!" are refused. "after limit !stream"
  std::string_view query = {};
};

struct Route {
  std::string_view method;
  std::string_view path;  // a "*" in it stands for any text of at least one byte: the call's argument
  Family family;          // of errors, until the handler knows better
  Access access;
  RouteHandler handle;
  bool waits = false;  // waits for the engine or the disk: runs on session threads
  // For paths that serve two families; null: `family` holds.
  Family (*family_of_body)(const JsonValue& body) = nullptr;
  bool takes_bytes = false;  // the call's bytes(); where the note has fields a form, or else JSON
  const RouteNote* note = nullptr;
};

// Returns the path of a route with `argument` in place of its "*".
std::string path_with(std::string_view path, std::string_view argument);

}  // namespace fulmar
