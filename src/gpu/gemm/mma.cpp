#include "gpu/gemm/mma.h"

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/mma_launch.h"
#include "gpu/gemm/operands.h"

namespace fulmar::gpu {

constinit const Kernel kMmaKernel{
    .name = "mma",
    .needs = has_no_wgmma,
    .accepts =
        [](GemmList products, const GemmDevice& device) {
          return equal_inputs(products) &&
                 all_of(products, [&](const Gemm& one) { return suits_tiled_out(one, 4, device); });
        },
    .launch = [](const GemmResources& resources, const Queue& queue,
                 GemmList products) { run_mma(resources, queue, products, plan_mma, launch_mma); },
};

}  // namespace fulmar::gpu
