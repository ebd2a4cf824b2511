// Products of two formats that share the GPU in a pair of concurrent launches.
#pragma once

#include "gpu/gemm/resources.h"

namespace fulmar::gpu {

// Enqueues both lists side by side, the second on the SMs that the first leaves idle. Returns false, and does
// nothing, where neither the skinny kernels nor the wgmma kernels take both.
bool run_pair(const GemmResources&, const Queue&, GemmList first, GemmList second);

}  // namespace fulmar::gpu
