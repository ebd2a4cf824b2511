// Products of nine rows and more multiplied from packed codes on GPUs of compute capability 9.0: codes are
// widened in registers and multiplied by wgmma from there, a warp-specialised kernel with stream-K
// (wgmma_q.cu).
#pragma once

#include "gpu/gemm/sm90/wgmma.h"

namespace fulmar::gpu {

WgmmaPlan plan_wgmma_q(GemmList, const WgmmaRoom&, bool fixed_order = false);

// Products of f16 inputs in 16-byte aligned rows, of equal row count and format; outputs f32 or f16 and a
// multiple of 4 wide. Weights packed as fragments.
void launch_wgmma_q(const Queue&, GemmList, const WgmmaPlan&, const WgmmaWork&);

}  // namespace fulmar::gpu
