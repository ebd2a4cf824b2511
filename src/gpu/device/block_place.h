// Stream compaction within a block: which of the threads that keep something a thread is.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

struct BlockPlace {
  int at;     // how many threads before this one keep something
  int count;  // how many of the block do
};

// All threads of a block of kWarps warps call; counts: [kWarps] in shared memory.
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
