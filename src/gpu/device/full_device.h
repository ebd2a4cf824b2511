// What a full device does to us, for tests: while set, nothing more is allocated or recorded.
#pragma once

#include <atomic>

namespace fulmar::gpu {

inline std::atomic<bool> pretend_full = false;

}  // namespace fulmar::gpu
