#include "gpu/gemm/naive.h"

#include "gpu/gemm/alone.h"
#include "gpu/gemm/kernels.h"

namespace fulmar::gpu {

constinit const Kernel kNaiveKernel{
    .name = "naive",
    .needs = nullptr,
    .accepts = [](GemmList, const GemmDevice&) { return true; },
    .launch =
        [](const GemmResources& resources, const Queue& queue, GemmList products) {
          run_alone(resources, queue, products.front(), [&](Tensor in, const Weight& weight, Tensor out) {
            launch_naive(queue, in, weight, out);
          });
        },
    .grouped = false,
};

}  // namespace fulmar::gpu
