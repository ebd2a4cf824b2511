// wgmma GEMM with E4M3 operands: as that of 16 bits (wgmma.h), with a pair of codes in place of each number
// and the scales of rows and outputs applied to the sums.
#pragma once

#include <span>

#include "gpu/gemm/sm90/fp8_inputs.h"
#include "gpu/gemm/sm90/wgmma.h"

namespace fulmar::gpu {

// Plans a launch. `whole`: whole tiles only, which need neither partial sums nor counters.
WgmmaPlan plan_wgmma_fp8(GemmList, const WgmmaRoom&, bool whole);

// Enqueues out = epilogue(in @ weight^T) for weights that is_float8_rows is true of; `inputs`:
// the products' quantised inputs, in their order. Outputs f16 or f32, a multiple of 4 wide;
// partial and counters as in launch_wgmma.
void launch_wgmma_fp8(const Queue&, GemmList, std::span<const Float8Input> inputs, const WgmmaPlan&,
                      const WgmmaWork&);

}  // namespace fulmar::gpu
