// Copies between large pieces of memory.
#pragma once

#include <cstddef>

namespace fulmar {

// As memcpy. Several threads share what is large: one core moves about 10 GB/s, fewer out of a file's pages
// that are not mapped yet, and the memory several times as much.
void copy_bytes(void* to, const void* from, size_t bytes);

}  // namespace fulmar
