// Who a thing belongs to that a client can name: requests, sessions, stored responses, uploaded states.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

// The owner of what callers make who have shown no key where there are some. No key has this name, and nobody
// sees what is nobody's.
inline constexpr std::string_view kNobody = "*";

// The key's name. Empty: the server's own, which is what administrators make, and everybody where there are
// no keys.
struct Owner {
  std::string name;
  bool administers = false;  // sees what is others', too

  bool sees(std::string_view whose) const { return administers || (whose == name && name != kNobody); }
  // Whether it may be used, not changed: one's own, and what administrators have made for all.
  bool may_use(std::string_view whose) const { return whose.empty() || sees(whose); }
};

// The server itself, from which nothing is hidden.
inline Owner server_itself() { return {.name = {}, .administers = true}; }

}  // namespace fulmar
