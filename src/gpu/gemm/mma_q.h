// Products of nine rows and more multiplied from packed codes: the tiles of mma.h, with codes widened in
// registers (mma_q.cu).
#pragma once

#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/mma.h"

namespace fulmar::gpu {

MmaPlan plan_mma_q(GemmList, int multiprocessors, bool fixed_order = false);

// Products of f16 inputs, equal row count, input width and format, packed as fragments; outputs f32 or f16
// and a multiple of 4 wide, inputs in 16-byte aligned rows. partial and counters as
// in launch_mma.
void launch_mma_q(const Queue&, GemmList, const MmaPlan&, float* partial, uint32_t* counters);

}  // namespace fulmar::gpu
