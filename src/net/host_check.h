// Protects against DNS rebinding: checks by its Host field whether a request is meant for this server. A page
// whose name resolves to 127.0.0.1 has the origin of what answers there; only the name differs. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"

namespace fulmar {

// Returns true without a Host, which every browser sends and health probes of HTTP/1.0 omit; for a numeric
// address; for `localhost` and names below it; and for the names in `allowed` (without port, in any case).
bool is_meant_for_us(const Headers& headers, const std::vector<std::string>& allowed);

// Returns whether the text is a host name as in Host: labels of letters, digits, '-' and '_' with dots
// between, without a port.
bool is_host_name(std::string_view text);

// Returns whether a server that listens at `host` is reached from this machine alone: an address of loopback,
// or `localhost`.
bool is_loopback_host(std::string_view host);

// Returns the text for status 421, with how to allow the name.
std::string wrong_host_text(const Headers& headers);
inline constexpr int kWrongHostStatus = 421;  // Misdirected Request (RFC 9110, 15.5.20)

}  // namespace fulmar
