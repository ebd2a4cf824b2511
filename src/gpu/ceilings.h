// The memory bandwidth and matrix throughput that this GPU reaches at best, for benchmarks.
#pragma once

#include "gpu/gemm/library.h"
#include "ops/ceilings.h"

namespace fulmar::gpu {

// Measures read, copy and GEMM rates for some tens of milliseconds, in scratch memory of its own (at most
// half of `free_memory` bytes), and waits for the device. GEMM operands are E4M3 with `float8`, else f16.
Result<Ceilings> measure_ceilings(const Queue&, VendorGemm&, int multiprocessors, size_t free_memory,
                                  bool float8);

}  // namespace fulmar::gpu
