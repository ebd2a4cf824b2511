// Split-K: several blocks compute parts of the same sums over K, leave them in memory, and the one that comes
// last adds them up in order, so that equal inputs always give equal bits.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// Called by all threads that `sync` joins, thread 0 of the block among them, when they have stored their
// part: whether the other `parts` - 1 blocks that share the counter were there before. The counter is then
// zero again, and what they have stored is visible.
template <class Sync>
__device__ __forceinline__ bool arrives_last(uint32_t* counter, uint32_t parts, Sync&& sync) {
  __shared__ bool last;
  __threadfence();
  sync();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) + 1 == parts;
    if (last) *counter = 0;
  }
  sync();
  const bool is_last = last;
  if (is_last) __threadfence();
  return is_last;
}

}  // namespace fulmar::gpu
