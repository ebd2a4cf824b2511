// Decides who may call which route (docs/http.md, "Keys") from a password, the keys, a request and its body.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_message.h"
#include "net/json_value.h"
#include "server/core/key_ring.h"

namespace fulmar {

enum class Access : uint8_t {
  open,          // health routes, the page and OPTIONS: never checked
  status,        // open, but file paths are hidden from callers without the key; closed by auth_all
  listing,       // open by default; closed by auth_all
  key,           // generation
  kept,          // as key; where no key is asked for, pages of other sites are refused
  listed,        // as key, but API keys open it only where their routes list it
  admin,         // what changes the server for all: only keys that administer, or list it by its full name
  key_or_query,  // as key, and ?key= counts too: clients of this route can send nothing else
};

struct AuthRules {
  std::string password;           // empty: there is none
  bool auth_all = false;          // --open none
  bool open_translate = false;    // --open translate
  const KeyRing* keys = nullptr;  // null: there are none; without a password either nothing is checked

  bool nothing_checked() const { return password.empty() && !keys; }
};

struct Caller {
  bool known = false;                   // has sent the password or a valid key, or nothing is checked
  std::shared_ptr<KeyAccount> account;  // of the key; null: nothing limits this caller
};

// Looks at the headers `Authorization: Bearer` and `X-Api-Key`, at the body's field `password` and, for
// key_or_query, at the query's `key`.
Caller identify(const AuthRules& rules, Access access, const HttpRequest& request, const JsonValue& body);

// Tells whether a route of this kind asks for the key at all.
bool needs_key(const AuthRules& rules, Access access);

}  // namespace fulmar
