// Compressed request bodies. The library underneath appears only in gzip.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// How much may come out of `bytes` of gzip's form: text, and even the same text again and again, stays below
// a hundred times its length and some megabytes; ten times denser are zeros alone. So the work is bounded by
// what was sent.
size_t most_inflated(size_t bytes);

// What `bytes` holds in gzip's form (RFC 1952). `invalid` for anything else, also for what is cut short or
// followed by more; `resource`, after no more than that many bytes of work, where more than `most`, or than
// most_inflated(), would come out. Whoever meters the work (base/meter.h) pays for each byte of it.
Result<std::string> gunzip(std::string_view bytes, size_t most);

}  // namespace fulmar
