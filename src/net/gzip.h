// Decompresses request bodies. The library is used only in gzip.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// Returns how much `bytes` of gzip's form may decompress to, so that what was sent bounds the work. Text,
// even the same text again and again, stays below a hundred times its length plus some megabytes; only zeros
// are ten times denser.
size_t most_inflated(size_t bytes);

// Decompresses gzip's form (RFC 1952). Errors: invalid, for anything else, also for what is cut short or
// followed by more; resource, where more than `most`, or than most_inflated(), would come out: found after at
// most that many bytes of work. Counts each byte as work for the thread's meter (base/meter.h).
Result<std::string> gunzip(std::string_view bytes, size_t most);

}  // namespace fulmar
