// mma.sync GEMM from packed codes, for nine rows and more: the tiles of mma.h, with codes widened to 16 bits
// in registers (mma_q.cu).
#pragma once

#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/mma.h"

namespace fulmar::gpu {

MmaPlan plan_mma_q(GemmList, int multiprocessors, bool fixed_order = false);

// Enqueues products of f16 inputs of equal row count, input width and format, weights packed as
// fragments; outputs f32 or f16 and a multiple of 4 wide, inputs in 16-byte aligned rows.
// partial and counters as in launch_mma.
void launch_mma_q(const Queue&, GemmList, const MmaPlan&, float* partial, uint32_t* counters);

}  // namespace fulmar::gpu
