// Products of nine rows and more multiplied from packed codes on GPUs of compute capability 9.0: codes are
// widened in registers and multiplied by wgmma from there, a warp-specialised kernel with stream-K
// (packed_panels.cu).
#pragma once

#include "gpu/products/sm90/panels.h"

namespace fulmar::gpu {

PanelPlan plan_packed_panels(ProductList, const PanelRoom&, bool fixed_order = false);

// Products of f16 inputs in 16-byte aligned rows, of equal row count and format; outputs f32 or f16 and a
// multiple of 4 wide. Weights packed as fragments.
void linear_packed_panels(const Queue&, ProductList, const PanelPlan&, const PanelWork&);

}  // namespace fulmar::gpu
