// Products of some ten to a hundred rows in one launch on every GPU from compute capability 8.0 on: split-K
// over tiles of outputs, so that small matrices fill the GPU, too (mma.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

struct MmaPlan {
  int64_t tiles = 0;         // of outputs and rows, all products together
  int64_t slices = 1;        // of the inputs (split-K)
  int64_t steps = 0;         // of a slice
  size_t partial_bytes = 0;  // of the slices' f32 sums
  bool fixed_order = false;  // as the plan was asked for
};

// For products of equal row count and input width. `fixed_order`: every output is added up in one order
// whatever the number of rows, by one slice and tiles that divide a stage's inputs alike.
MmaPlan plan_mma(GemmList, int multiprocessors, bool fixed_order = false);

// Products of equal row count and input width, operands as suits_skinny wants them, outputs in the activation
// type or f32 and a multiple of 4 wide. partial: plan.partial_bytes; counters: zeroed once, [plan.tiles],
// zero again afterwards.
void launch_mma(const Queue&, GemmList, const MmaPlan&, float* partial, uint32_t* counters);

}  // namespace fulmar::gpu
