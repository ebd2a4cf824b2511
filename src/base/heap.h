// How much freed memory the heap keeps.
#pragma once

#include <cstddef>

namespace fulmar {

// Blocks of at least this size (bytes) are mapped separately and go back to the system when they are freed. A
// heap whose free end exceeds this size is trimmed.
constexpr int kMappedBlock = 4 << 20;

// Fixes these two bounds; call it once, before threads start. By default the C library raises both as blocks
// are freed, to 32 and 64 MiB, and has one heap for nearly every thread, so freed weights and large request
// bodies would leave more than 100 MiB behind. Does nothing where the C library has no such bounds.
void bound_kept_memory();

// Free memory between blocks in use that the heaps may keep. Bytes.
constexpr size_t kMostFree = size_t{32} << 20;

// Returns whole free pages between used blocks to the system if there are more than kMostFree bytes. Takes
// milliseconds, during which threads that allocate may wait.
void return_free_memory();

}  // namespace fulmar
