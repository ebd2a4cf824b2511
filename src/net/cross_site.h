// Cross-site request forgery (CSRF): whether a browser sent a request on behalf of another site's page.
// Pure.
#pragma once

#include "net/http_message.h"

namespace fulmar {

// By Sec-Fetch-Site, which every current browser sends; without it by an Origin whose host and port are not
// those of the request. Programs that are no browsers send neither.
bool is_cross_site(const Headers& headers);

}  // namespace fulmar
