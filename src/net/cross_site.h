// Detects cross-site request forgery (CSRF): a request that a browser sent for another site's page.
// Pure.
#pragma once

#include "net/http_message.h"

namespace fulmar {

// Returns whether it is such a request: by Sec-Fetch-Site, which every current browser sends, else by an
// Origin whose host and port are not those of the request. Programs that are not browsers send neither.
bool is_cross_site(const Headers& headers);

}  // namespace fulmar
