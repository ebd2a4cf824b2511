// DNS rebinding: whether a request was meant for this server, by the name in its Host field. A page whose own
// name is made to mean 127.0.0.1 is of one origin with what answers there, so that only the name tells. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"

namespace fulmar {

// True without a Host, which every browser sends and health probes of HTTP/1.0 leave out; for a numeric
// address, `localhost` and names below it, and the names in `allowed` (without port, in any case).
bool is_meant_for_us(const Headers& headers, const std::vector<std::string>& allowed);

// Whether the text is a name of a host, as it may stand in Host: labels of letters, digits, '-' and '_' with
// dots between, without a port.
bool is_host_name(std::string_view text);

// 421, which says so and how to allow the name.
std::string wrong_host_text(const Headers& headers);
inline constexpr int kWrongHostStatus = 421;  // Misdirected Request (RFC 9110, 15.5.20)

}  // namespace fulmar
