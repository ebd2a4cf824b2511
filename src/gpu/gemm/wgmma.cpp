#include "gpu/gemm/operands.h"
#include "gpu/gemm/wgmma_launch.h"

namespace fulmar::gpu {

constinit const Kernel kWgmmaKernel{
    .name = "wgmma",
    .needs = has_wgmma,
    .accepts =
        [](GemmList products, const GemmDevice& device) {
          return all_of(products, [&](const Gemm& one) { return suits_tiled_out(one, 4, device); });
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, GemmList products) {
          run_wgmma(resources, queue, {&kWgmmaKernel, products});
        },
};

}  // namespace fulmar::gpu
