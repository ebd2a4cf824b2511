// How heavy the work of a request is, as far as its head and its bytes tell.
#pragma once

#include <string_view>

#include "base/fair_queue.h"
#include "net/http_message.h"

namespace fulmar {

// Tells whether a body is in gzip's form, which takes longer to read than its length says.
bool is_compressed(const Headers& headers);

// Tells whether a body, of whatever route, may ask for a schema, a pattern or a grammar to be compiled.
// Others may be taken for such, too.
bool may_hold_schema(std::string_view body);

// Returns light for small bodies, which go past large ones, unless they may hold what has to be compiled.
JobWeight weight_of(const HttpRequest& request);

}  // namespace fulmar
