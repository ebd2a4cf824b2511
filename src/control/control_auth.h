// Who may use the control plane. Pure decisions.
#pragma once

#include <string>
#include <string_view>

#include "net/http_message.h"

namespace fulmar {

// Returns whether `password` is empty, or the request has it as Bearer token, as X-Api-Key or, if
// `basic_counts`, as the password of HTTP Basic (any user name). Browsers add the latter by themselves, also
// to requests that pages of other sites make them send.
bool has_control_key(std::string_view password, const Headers& headers, bool basic_counts = true);

}  // namespace fulmar
