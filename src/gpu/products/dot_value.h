// The down-projection behind relu² for one to eight rows, for GPUs without the fragments of value.h: inputs
// that are zero in all rows are skipped (dot_value.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/products/product.h"

namespace fulmar::gpu {

// Whether 16-byte loads reach a weight that is stored transposed, [K, outs].
bool suits_dot_value(Tensor in, const Weight& weight);

struct DotValuePlan {
  int64_t blocks, slices;  // of the outputs, of the inputs
  size_t partial_bytes;    // slices share sums through memory
};
DotValuePlan plan_dot_value(int64_t rows, const Weight& weight);

// partial: working memory of the plan's size; counters: one per block, zero before and after. At most
// kMostDotRows rows; out of the activation type or f32.
void linear_dot_value(const Queue&, const DotValuePlan&, const Product&, float* partial, uint32_t* counters);

}  // namespace fulmar::gpu
