// Down-projection in @ weight^T with a weight packed transposed, [K, outs]: up to eight rows skip the codes
// whose inputs are all zero, as after relu²; more rows multiply all of them (sparse_q.cu).
#pragma once

#include "gpu/gemm/gemm.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/sparse.h"

namespace fulmar::gpu {

struct GemmResources;  // resources.h

// Enqueues the product. More than eight rows must be f16. Output in the activation type, or f32, to which the
// product is added; no epilogue. One counter per kPackedValueOuts outputs and 32 rows.
void launch_sparse_q(const Queue&, const SparsePlan&, const Gemm&, const SplitWork&);
// Plans the product, takes its working memory and enqueues it.
void run_sparse_q(const GemmResources&, const Queue&, const Gemm&);

}  // namespace fulmar::gpu
