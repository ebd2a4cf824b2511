// Who may use the control plane. Pure decisions.
#pragma once

#include <string>
#include <string_view>

#include "net/http_message.h"

namespace fulmar {

// True when `password` is empty, or the request offers it as Bearer token, as the password of HTTP Basic
// (any user name) or as X-Api-Key.
bool has_control_key(std::string_view password, const Headers& headers);

}  // namespace fulmar
