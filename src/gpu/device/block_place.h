// Stream compaction within a block: the index of a thread among those that keep something.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

struct BlockPlace {
  int at;     // number of earlier threads that keep something
  int count;  // number of threads of the block that do
};

// Computes this thread's index. All threads of a block of kWarps warps call; counts: [kWarps] in shared
// memory.
template <int kWarps>
__device__ __forceinline__ BlockPlace place_in_block(bool keeps, int (&counts)[kWarps]) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const unsigned mask = __ballot_sync(kFullWarp, keeps);
  if (lane == 0) counts[warp] = __popc(mask);
  __syncthreads();
  BlockPlace place{static_cast<int>(__popc(mask & ((1u << lane) - 1))), 0};
#pragma unroll
  for (int w = 0; w < kWarps; w++) {
    if (w < warp) place.at += counts[w];
    place.count += counts[w];
  }
  return place;
}

}  // namespace fulmar::gpu
