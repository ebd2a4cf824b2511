// How items that lie behind one another are shared out among the blocks of a grid.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// This block's: neighbours, one more than others have where they do not come out even.
struct EqualShare {
  int first, count;
  __device__ explicit EqualShare(int items) {
    const int block = blockIdx.x, blocks = gridDim.x, whole = items / blocks, rest = items % blocks;
    count = whole + (block < rest ? 1 : 0);
    first = block * whole + min(block, rest);
  }
};

}  // namespace fulmar::gpu
