// Decides which session ids clients may send. Knows no call.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/http_message.h"
#include "server/core/errors.h"
#include "server/core/fields.h"

namespace fulmar {

// What routes that continue a session read (intake.h).
inline constexpr FieldTable kSessionFields{
    "session",
    {{"session_id", Takes::text(), "conversation that is continued"},
     {"raw_append", Takes::boolean(), "no end of turn between what was and what comes", "false"},
     {"on_disconnect", Takes::word("discard keep"), "keep: a turn that broke off counts as far as it went",
      R"("discard")"}}};

// Returns the engine's session of a stored response.
inline std::string response_session(std::string_view id) { return "resp:" + std::string(id); }
// Tells whether the server names sessions of its own like this: those of stored responses, and what a prefix
// of them all would be. Clients cannot name such a session, and are not shown any.
bool is_servers_session(std::string_view id);
// Returns what is wrong with an id that a client has sent: nothing for 1 to kMostSessionBytes bytes without
// control characters that are no name of the server's own.
std::optional<ApiError> session_id_fault(std::string_view id);
// Refuses the field `session_id`, and the header that stands for it, where a route continues no session.
void refuse_session(Fields& fields, const Headers& headers);

}  // namespace fulmar
