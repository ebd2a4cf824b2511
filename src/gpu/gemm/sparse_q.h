// in @ weight^T with a weight packed transposed, [K, outs]: up to eight rows skip codes that meet only zeros,
// as behind relu²; more rows take all (sparse_q.cu).
#pragma once

#include "gpu/gemm/gemm.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/sparse.h"

namespace fulmar::gpu {

struct GemmResources;  // resources.h

// More than eight rows are f16. out in the activation type, or f32, to which the product is added. partial:
// of plan_sparse; counters: zeroed once, one for every kPackedValueOuts outputs and 32 rows, zero again
// afterwards.
void launch_sparse_q(const Queue&, const SparsePlan&, Tensor in, const Weight& weight, Tensor out,
                     float* partial, uint32_t* counters);
// Plans it, takes its working memory and launches it.
void run_sparse_q(const GemmResources&, const Queue&, const Gemm&);

}  // namespace fulmar::gpu
