// Sums of several numbers at once over a warp.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// Does a butterfly step: each lane sends half of its numbers to its partner and adds the half that it
// receives, until one is left.
template <int kHalf, int kOffset, int kCount>
__device__ __forceinline__ void share_out_sums(float (&x)[kCount]) {
  if constexpr (kHalf > 0) {
    const bool upper = (threadIdx.x & kOffset) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; i++) {
      const float low = x[i], high = x[i + kHalf];
      x[i] = (upper ? high : low) + __shfl_xor_sync(kFullWarp, upper ? low : high, kOffset);
    }
    share_out_sums<kHalf / 2, kOffset / 2>(x);
  }
}

// Sums kCount numbers at once over a warp: lane l returns sum number l * kCount / kWarp.
template <int kCount>
__device__ __forceinline__ float warp_sums(float (&x)[kCount]) {
  static_assert(kCount <= kWarp && (kCount & (kCount - 1)) == 0);
  share_out_sums<kCount / 2, kWarp / 2>(x);
#pragma unroll
  for (int offset = kWarp / kCount / 2; offset > 0; offset /= 2) {
    x[0] += __shfl_xor_sync(kFullWarp, x[0], offset);
  }
  return x[0];
}

}  // namespace fulmar::gpu
