// Who may use the control plane. Pure decisions.
#pragma once

#include <string>
#include <string_view>

#include "net/http_message.h"

namespace fulmar {

// True when `password` is empty, or the request offers it as Bearer token, as X-Api-Key or, unless
// `basic_counts` is false, as the password of HTTP Basic (any user name). Browsers add the latter by
// themselves, to what pages of other sites make them send, too.
bool has_control_key(std::string_view password, const Headers& headers, bool basic_counts = true);

}  // namespace fulmar
