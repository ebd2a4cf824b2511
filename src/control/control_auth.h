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

// Compares in a time that does not depend on where the two differ. False for an empty secret.
bool equal_secrets(std::string_view secret, std::string_view offered);

// Undoes base64; an empty text for what is not base64.
std::string base64_decode(std::string_view text);

}  // namespace fulmar
