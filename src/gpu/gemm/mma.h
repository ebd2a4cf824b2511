// mma.sync GEMM: products of some ten to a hundred rows in one launch on every GPU from compute capability
// 8.0 on, with split-K over tiles of outputs, so that small matrices fill the GPU, too (mma.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

struct MmaPlan {
  int64_t tiles = 0;         // of outputs and rows, over all products
  int64_t slices = 1;        // of K (split-K)
  int64_t steps = 0;         // K steps of a slice
  size_t partial_bytes = 0;  // of the slices' f32 sums
  bool fixed_order = false;  // the argument of plan_mma
};

// Plans a launch of products of equal row count and input width. `fixed_order`: one order of sums at any
// number of rows, without split-K and with tiles whose warps divide a step's inputs in the same way.
MmaPlan plan_mma(GemmList, int multiprocessors, bool fixed_order = false);

// Enqueues products of equal row count and input width. Operands as suits_skinny demands, outputs in the
// activation type or f32 and a multiple of 4 wide. partial: plan.partial_bytes; counters: [plan.tiles],
// zeroed once; the kernel leaves them zero.
void launch_mma(const Queue&, GemmList, const MmaPlan&, float* partial, uint32_t* counters);

}  // namespace fulmar::gpu
