// Simulates a full device for tests: while set, allocations and graph captures fail.
#pragma once

#include <atomic>

namespace fulmar::gpu {

inline std::atomic<bool> pretend_full = false;

}  // namespace fulmar::gpu
