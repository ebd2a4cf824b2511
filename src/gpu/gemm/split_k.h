// Split-K: several blocks compute partial sums over K and store them in memory; the last to arrive adds them
// up in order, so equal inputs always give equal bits.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// Returns whether the other `parts` - 1 blocks that share the counter have arrived before this one: then the
// counter is zero again, and what they stored is visible. Called by all threads that `sync` joins, thread 0
// of the block among them, after they have stored their part.
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
