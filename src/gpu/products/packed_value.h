// in @ weight^T with a weight packed transposed, [K, outs]: up to eight rows skip codes that meet only zeros,
// as behind relu²; more rows take all (packed_value.cu).
#pragma once

#include "gpu/products/packed.h"
#include "gpu/products/product.h"
#include "gpu/products/value.h"

namespace fulmar::gpu {

struct GemmResources;  // resources.h

// More than eight rows are f16. out in the activation type, or f32, to which the product is added. partial:
// of plan_value; counters: zeroed once, one for every kPackedValueOuts outputs and 32 rows, zero again
// afterwards.
void linear_packed_value(const Queue&, const ValuePlan&, Tensor in, const Weight& weight, Tensor out,
                         float* partial, uint32_t* counters);
// Plans it, takes its working memory and launches it.
void run_packed_value(const GemmResources&, const Queue&, const Product&);

}  // namespace fulmar::gpu
