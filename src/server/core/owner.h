// Derives the owner of a call from the key or password that the caller has sent.
#pragma once

#include <string>
#include <string_view>

#include "base/owner.h"
#include "server/core/auth.h"

namespace fulmar {

// Names the owner as whom an administrator acts: the call sees and makes that owner's data.
inline constexpr std::string_view kOwnerHeader = "Fulmar-Owner";

// Returns whose the call is. Where nothing is checked all are one owner, who administers. `as`: the header's
// text, "" when there is none; it changes an administrator's call alone.
Owner owner_of(const Caller& caller, std::string_view as);

// Tells whether the caller may act as the owner of that name: an administrator as anybody, a key as itself.
bool may_act_as(const Caller& caller, std::string_view name);

// Returns the text under which work and bytes are shared out: the key's, or without one the client's.
std::string share_of(const Caller& caller, std::string_view client);

}  // namespace fulmar
