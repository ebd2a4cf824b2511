// Products of two formats that share the GPU in one pair of launches.
#pragma once

#include "gpu/products/resources.h"

namespace fulmar::gpu {

// Runs both side by side, the second on what the first leaves free. Returns false, and does nothing, where
// neither kernels of few rows nor panels take both.
bool run_pair(const GemmResources&, const Queue&, ProductList first, ProductList second);

}  // namespace fulmar::gpu
