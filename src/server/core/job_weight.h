// Estimates how heavy the work of a request is from its head and its bytes, before they are parsed.
#pragma once

#include <string_view>

#include "base/fair_queue.h"
#include "net/http_message.h"

namespace fulmar {

// Tells whether a body is in gzip's form, which takes longer to read than its length says.
bool is_compressed(const Headers& headers);

// Tells whether a body of any route may ask for a schema, a pattern or a grammar to be compiled. Also true
// for some bodies that do not.
bool may_hold_schema(std::string_view body);

// Returns light for small bodies that cannot hold anything to compile: light jobs overtake heavy ones.
JobWeight weight_of(const HttpRequest& request);

}  // namespace fulmar
