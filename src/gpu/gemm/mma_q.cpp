#include "gpu/gemm/mma_q.h"

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/mma_launch.h"
#include "gpu/gemm/operands.h"

namespace fulmar::gpu {

constinit const Kernel kMmaQKernel{
    .name = "mma_q",
    .needs = has_matrix_units,
    .accepts =
        [](GemmList products, const GemmDevice&) {
          return products.front().in.dtype == DType::f16 && suit_packed(products) && equal_inputs(products) &&
                 outs_by_fours(products);
        },
    .launch = [](const GemmResources& resources, const Queue& queue,
                 GemmList products) { run_mma(resources, queue, products, plan_mma_q, launch_mma_q); },
};

}  // namespace fulmar::gpu
