// Compressed request bodies. The library underneath appears only in gzip.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// What `bytes` holds in gzip's form (RFC 1952). `invalid` for anything else, also for what is cut short or
// followed by more; `resource`, after no more than `most` bytes of work, where more than `most` would come
// out.
Result<std::string> gunzip(std::string_view bytes, size_t most);

}  // namespace fulmar
