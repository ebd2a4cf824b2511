// The algorithm of an all-reduce over GPUs of one host: a pure decision by its size.
#pragma once

#include <cstdint>

#include "ops/sum_way.h"

namespace fulmar::gpu {

// Largest `partial`, in bytes, for SumWay::flagged, which doubles buffer space and traffic.
constexpr int64_t kMostFlaggedBytes = int64_t{1} << 20;

// Returns the algorithm for addends of `bytes` bytes on each of `ranks` ranks; never the vendor's library.
// Measured for two GPUs linked by NVLink; derived from the bytes sent for more.
SumWay sum_way(int64_t ranks, int64_t bytes);
// Returns whether the kernel that needs the sum reads the other rank's addend by peer loads instead
// (peers.h).
bool pulls_addends(int64_t ranks, int64_t bytes);

}  // namespace fulmar::gpu
