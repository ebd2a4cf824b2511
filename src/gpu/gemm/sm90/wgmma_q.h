// wgmma GEMM from packed codes for nine rows and more, on GPUs of compute
// capability 9.0: warp-specialised, with stream-K; codes are widened in registers,
// from which wgmma reads them (wgmma_q.cu).
#pragma once

#include "gpu/gemm/sm90/wgmma.h"

namespace fulmar::gpu {

WgmmaPlan plan_wgmma_q(GemmList, const WgmmaRoom&, bool fixed_order = false);

// Enqueues products of f16 inputs in 16-byte aligned rows, of equal row count and format; outputs f32 or f16
// and a multiple of 4 wide. Weights packed as fragments.
void launch_wgmma_q(const Queue&, GemmList, const WgmmaPlan&, const WgmmaWork&);

}  // namespace fulmar::gpu
