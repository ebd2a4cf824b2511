// Measures how fast this machine reads and copies memory and multiplies, with
// the threads that kernels use.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "cpu/thread_pool.h"
#include "ops/ceilings.h"

namespace fulmar {

struct CeilingOptions {
  size_t buffer_bytes = size_t{1} << 30;  // read cyclically, so it should be many times the last cache
  double seconds = 1.0;                   // for all measurements together
};

// Returns the best of several rounds: anything else that runs on the machine only slows a round down.
Result<Ceilings> measure_ceilings(ThreadPool& pool, const CeilingOptions& options = {});

}  // namespace fulmar
