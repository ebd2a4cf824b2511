// Measures how fast this machine reads and copies memory and multiplies, with the threads that the kernels
// use.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "cpu/thread_pool.h"
#include "ops/ceilings.h"

namespace fulmar {

struct CeilingOptions {
  size_t buffer_bytes = size_t{1} << 30;  // read in turn, so it should be many times the last cache
  double seconds = 1.0;                   // for all measurements together
};

// The best of several rounds, because anything else that runs on the machine only ever slows a round down.
Result<Ceilings> measure_ceilings(ThreadPool& pool, const CeilingOptions& options = {});

}  // namespace fulmar
