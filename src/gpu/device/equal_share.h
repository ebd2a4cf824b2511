// Contiguous ranges of items, as equal as possible, one for each block of a grid.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// This block's range. The first blocks have one item more where the items do not divide evenly.
struct EqualShare {
  int first, count;
  __device__ explicit EqualShare(int items) {
    const int block = blockIdx.x, blocks = gridDim.x, whole = items / blocks, rest = items % blocks;
    count = whole + (block < rest ? 1 : 0);
    first = block * whole + min(block, rest);
  }
};

}  // namespace fulmar::gpu
