// The owner of a thing that a client can name: a request, session, stored response or uploaded state.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

// The owner of what is made by callers without a key where keys exist. No key has this name, and nobody sees
// what has this owner.
inline constexpr std::string_view kNobody = "*";

// An owner by the name of its key. An empty name is the server's own: it owns what administrators make, and
// everything where there are no keys.
struct Owner {
  std::string name;
  bool administers = false;  // sees other owners' things, too

  bool sees(std::string_view whose) const { return administers || (whose == name && name != kNobody); }
  // Returns whether it may be used, not changed: one's own things and what administrators made for all.
  bool may_use(std::string_view whose) const { return whose.empty() || sees(whose); }
};

// Returns the owner that stands for the server itself, from which nothing is hidden.
inline Owner server_itself() { return {.name = {}, .administers = true}; }

}  // namespace fulmar
