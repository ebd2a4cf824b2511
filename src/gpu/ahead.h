// Weights that a later kernel will want, brought into the L2 cache by blocks that an earlier one has to
// spare: so the memory does not rest while a kernel of few blocks runs.
#pragma once

#include "gpu/kernels.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

constexpr unsigned kAheadBlocks = 64;

// Block `part` of `parts`; all its threads call.
__device__ __forceinline__ void bring_ahead(const Ahead& ahead, unsigned part, unsigned parts) {
  constexpr uint32_t kPiece = 4096;
  if (threadIdx.x >= kWarp) return;
#pragma unroll
  for (int i = 0; i < kMostAhead; i++) {
    for (uint32_t at = (part * kWarp + threadIdx.x) * kPiece; at < ahead.bytes[i];
         at += parts * kWarp * kPiece) {
      prefetch(static_cast<const char*>(ahead.data[i]) + at, min(kPiece, ahead.bytes[i] - at));
    }
  }
}

}  // namespace fulmar::gpu
