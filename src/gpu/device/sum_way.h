// Which way an all-reduce over GPUs of one host goes: a pure decision over its size.
#pragma once

#include <cstdint>

#include "ops/sum_way.h"

namespace fulmar::gpu {

// The most bytes of `partial` that go by SumWay::flagged, which takes twice as much room and link.
constexpr int64_t kMostFlaggedBytes = int64_t{1} << 20;

// For `bytes` of each rank's addend among `ranks` of them, never the vendor's library: as measured
// where two GPUs are linked (NVLink); for more by what each way sends.
SumWay sum_way(int64_t ranks, int64_t bytes);
// Whether the kernel that wants the sum reads the other rank's addend where it lies (peers.h), instead.
bool pulls_addends(int64_t ranks, int64_t bytes);

}  // namespace fulmar::gpu
