// Who may call what (docs/http.md, "Keys"): pure decisions over a password, a request and its body.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/http_message.h"
#include "net/json_value.h"

namespace fulmar {

enum class Access : uint8_t {
  open,          // health routes, the page and OPTIONS: never checked
  status,        // open, but file paths are hidden from callers without the key; closed by auth_all
  listing,       // open by default; closed by auth_all
  key,           // generation, state and administration
  key_or_query,  // as key, and ?key= counts too: clients of this route can send nothing else
};

struct AuthRules {
  std::string password;         // empty: nothing is checked
  bool auth_all = false;        // --auth-all
  bool open_translate = false;  // --open-translate
};

// True when the caller has shown the key, or none is needed: the field `password` of the body, the headers
// `Authorization: Bearer` or `X-Api-Key`, and for key_or_query the query's `key`.
bool has_key(const AuthRules& rules, Access access, const HttpRequest& request, const JsonValue& body);

// Whether a route of this kind asks for the key at all.
bool needs_key(const AuthRules& rules, Access access);

}  // namespace fulmar
