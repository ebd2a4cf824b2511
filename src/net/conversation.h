// The ways in which a request names the conversation that it belongs to, for those that answer it and those
// that route it. Knows no other fields of a route.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/http_message.h"
#include "net/json_value.h"

namespace fulmar {

inline constexpr std::string_view kSessionHeader = "X-RWKV-Session-Id";

struct Conversation {
  enum class Kind : uint8_t { none, session, response };
  Kind kind = Kind::none;
  std::string id;
};

// Returns what a request names: the session or the stored response in its path, else the response that it
// continues (`previous_response_id`), else the session of `session_id`, at the top of the body or in its
// object `params`, or of the header X-RWKV-Session-Id. `path` is decoded.
Conversation named_conversation(std::string_view path, const Headers& headers, const JsonValue& body);

}  // namespace fulmar
