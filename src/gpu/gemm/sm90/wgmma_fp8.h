// Panels whose operands are E4M3: as those of 16 bits (wgmma.h), of which a pair of codes takes the place of
// one number, with the scales of rows and outputs behind the sums.
#pragma once

#include <span>

#include "gpu/gemm/sm90/fp8_inputs.h"
#include "gpu/gemm/sm90/wgmma.h"

namespace fulmar::gpu {

// `whole`: whole tiles alone, which want neither partial sums nor counters.
WgmmaPlan plan_wgmma_fp8(GemmList, const WgmmaRoom&, bool whole);

// out = epilogue(in @ weight^T) of weights that is_float8_rows is true of; `inputs`: those of the products,
// in their order, quantised. Outputs f16 or f32, a multiple of 4 wide; partial and counters as launch_wgmma
// has them.
void launch_wgmma_fp8(const Queue&, GemmList, std::span<const Float8Input> inputs, const WgmmaPlan&,
                      const WgmmaWork&);

}  // namespace fulmar::gpu
