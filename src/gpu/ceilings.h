// What this GPU reaches at best, for benchmarks.
#pragma once

#include "gpu/gemm/library.h"
#include "ops/ceilings.h"

namespace fulmar::gpu {

// Reads, copies and multiplies for some tens of milliseconds, in memory of its own, at most half of
// `free_memory` bytes. Waits for the device. `float8`: products of E4M3 by E4M3, of f16 otherwise.
Result<Ceilings> measure_ceilings(const Queue&, VendorGemm&, int multiprocessors, size_t free_memory,
                                  bool float8);

}  // namespace fulmar::gpu
