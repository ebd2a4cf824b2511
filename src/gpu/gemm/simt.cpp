#include "gpu/gemm/simt.h"

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/operands.h"

namespace fulmar::gpu {

static_assert(kMostSkinnyRows == kMostSimtRows);

constinit const Kernel kSimtKernel{
    .name = "simt",
    .needs = has_no_matrix_units,
    .accepts = [](GemmList products, const GemmDevice&) { return all_suit_skinny(products); },
    .launch = [](const GemmResources&, const Queue& queue,
                 GemmList products) { launch_simt(queue, products); },
};

}  // namespace fulmar::gpu
