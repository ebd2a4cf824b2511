// Copies between large pieces of memory.
#pragma once

#include <cstddef>

namespace fulmar {

// Copies like memcpy. Several threads share a large copy: one core moves about 10 GB/s, less where pages of a
// file are not mapped yet, while the memory moves several times as much.
void copy_bytes(void* to, const void* from, size_t bytes);

}  // namespace fulmar
