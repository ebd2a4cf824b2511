// Products of two formats that share the GPU in one pair of launches.
#pragma once

#include "gpu/gemm/resources.h"

namespace fulmar::gpu {

// Runs both side by side, the second on what the first leaves free. Returns false, and does nothing, where
// neither kernels of few rows nor those of wgmma take both.
bool run_pair(const GemmResources&, const Queue&, GemmList first, GemmList second);

}  // namespace fulmar::gpu
