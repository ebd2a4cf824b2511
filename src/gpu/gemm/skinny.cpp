#include "gpu/gemm/skinny.h"

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/operands.h"

namespace fulmar::gpu {

constinit const Kernel kSkinnyKernel{
    .name = "skinny",
    .needs = has_matrix_units,
    .accepts = [](GemmList products, const GemmDevice&) { return all_suit_skinny(products); },
    .launch = [](const GemmResources&, const Queue& queue,
                 GemmList products) { launch_skinny(queue, products); },
};

}  // namespace fulmar::gpu
