// Panels whose operands are E4M3: as those of 16 bits (panels.h), of which a pair of codes takes the place of
// one number, with the scales of rows and outputs behind the sums.
#pragma once

#include <span>

#include "gpu/products/sm90/float8_inputs.h"
#include "gpu/products/sm90/panels.h"

namespace fulmar::gpu {

// `whole`: whole tiles alone, which want neither partial sums nor counters.
PanelPlan plan_float8_panels(ProductList, const PanelRoom&, bool whole);

// out = epilogue(in @ weight^T) of weights that is_float8_rows is true of; `inputs`: those of the products,
// in their order, quantised. Outputs f16 or f32, a multiple of 4 wide; partial and counters as linear_panels
// has them.
void linear_float8_panels(const Queue&, ProductList, std::span<const Float8Input> inputs, const PanelPlan&,
                          const PanelWork&);

}  // namespace fulmar::gpu
