// How much freed memory the heap keeps.
#pragma once

#include <cstddef>

namespace fulmar {

// Blocks from here on are mapped by themselves and go back to the system when they are freed, and so does a
// heap's free end beyond as much. Bytes.
constexpr int kMappedBlock = 4 << 20;

// Fixes those two bounds, once, before threads are started. The C library else raises both as blocks are
// freed, to 32 and 64 MiB, and has a heap for nearly every thread: weights that were let go and large request
// bodies then leave more than 100 MiB behind. No effect where the C library has no such bounds.
void bound_kept_memory();

// Free memory between blocks in use that the heaps may keep. Bytes.
constexpr size_t kMostFree = size_t{32} << 20;

// Gives whole free pages between blocks in use back where there are more than kMostFree. Takes milliseconds,
// for which threads that want memory may wait.
void return_free_memory();

}  // namespace fulmar
