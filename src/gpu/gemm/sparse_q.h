// in @ weight^T with a weight packed transposed, [K, outs]: up to eight rows skip codes that meet only zeros,
// as behind relu²; more rows take all (sparse_q.cu).
#pragma once

#include "gpu/gemm/gemm.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/sparse.h"

namespace fulmar::gpu {

struct GemmResources;  // resources.h

// More than eight rows are f16. Output in the activation type, or f32, to which the product is added; no
// epilogue. A counter for every kPackedValueOuts outputs and 32 rows.
void launch_sparse_q(const Queue&, const SparsePlan&, const Gemm&, const SplitWork&);
// Plans it, takes its working memory and launches it.
void run_sparse_q(const GemmResources&, const Queue&, const Gemm&);

}  // namespace fulmar::gpu
