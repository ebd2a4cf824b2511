// Sums of several numbers at once over a warp.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// Sums over a warp of kCount numbers at once: lane l has that of number l * kCount / kWarp. A lane gives half
// of what it still has to another one and takes the other half of that one's.
template <int kCount>
__device__ __forceinline__ float warp_sums(float (&x)[kCount]) {
  static_assert(kCount <= kWarp && (kCount & (kCount - 1)) == 0);
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int half = kCount / 2, offset = kWarp / 2; half > 0; half /= 2, offset /= 2) {
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < half; i++) {
      const float given = upper ? x[i] : x[i + half], kept = upper ? x[i + half] : x[i];
      x[i] = kept + __shfl_xor_sync(kFullWarp, given, offset);
    }
  }
#pragma unroll
  for (int offset = kWarp / kCount / 2; offset > 0; offset /= 2) {
    x[0] += __shfl_xor_sync(kFullWarp, x[0], offset);
  }
  return x[0];
}

}  // namespace fulmar::gpu
