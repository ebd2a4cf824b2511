#include "server/generate/session_ids.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ask_rules.h"
#include "net/conversation.h"

namespace fulmar {
namespace {

bool is_control(char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F; }

}  // namespace

bool is_servers_session(std::string_view id) {
  const std::string prefix = response_session("");
  return id.starts_with(prefix) || id == std::string_view(prefix).substr(0, prefix.size() - 1);
}

std::optional<ApiError> session_id_fault(std::string_view id) {
  if (id.empty() || id.size() > kMostSessionBytes) {
    return bad_value(
        fmt::format("'session_id' holds {} bytes; 1 to {} are allowed", id.size(), kMostSessionBytes),
        "session_id");
  }
  if (const auto at = std::find_if(id.begin(), id.end(), is_control); at != id.end()) {
    return bad_value(fmt::format("'session_id' holds the control character U+{:04X}; wanted none",
                                 static_cast<unsigned>(*at)),
                     "session_id");
  }
  if (is_servers_session(id)) {
    return bad_value(fmt::format("'session_id' is '{}', a name of the server's own; wanted another", id),
                     "session_id");
  }
  return std::nullopt;
}

void refuse_session(Fields& fields, const Headers& headers) {
  const bool in_body = fields.present(kSessionFields["session_id"]);
  if (!in_body && headers.get(kSessionHeader).empty()) return;
  const std::string_view name = in_body ? "session_id" : kSessionHeader;
  fields.fail(bad_value(fmt::format("'{}' is not kept on this route; sessions go on at /v1/chat/completions, "
                                    "/state/chat/completions and /multi_state/chat/completions",
                                    name),
                        std::string(name), "unsupported_parameter"));
}

}  // namespace fulmar
