// The rule for parameters of a URL that a route does not read. Knows no call.
#pragma once

#include "net/http_message.h"
#include "server/core/route.h"
#include "server/core/unkept.h"

namespace fulmar {

// Adds to `found` what the parameters hold that the route does not read (RouteNote::query): a fault where
// dropping it would change what is done, or where one is given twice with two values; else a warning.
void check_query(const Route& route, const Query& query, UnkeptFields& found);

}  // namespace fulmar
