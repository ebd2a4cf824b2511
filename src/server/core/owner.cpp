// The decisions about owners.
#include "server/core/owner.h"

namespace fulmar {
namespace {

// Tells whether the caller acts for the server itself: with the password, with a key that administers, or
// where nothing is checked.
bool administers(const Caller& caller) {
  return caller.known && (!caller.account || caller.account->administers());
}

}  // namespace

Owner owner_of(const Caller& caller, std::string_view as) {
  if (administers(caller)) return {.name = std::string(as), .administers = as.empty()};
  return {.name = caller.account ? caller.account->name() : std::string(kNobody), .administers = false};
}

bool may_act_as(const Caller& caller, std::string_view name) {
  return administers(caller) || (caller.account && caller.account->name() == name);
}

std::string share_of(const Caller& caller, std::string_view client) {
  return caller.account ? "key " + caller.account->name() : std::string(client);
}

}  // namespace fulmar
