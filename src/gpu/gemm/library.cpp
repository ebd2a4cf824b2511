// The vendor's GEMM library as one kernel among the others.
#include "gpu/gemm/alone.h"
#include "gpu/gemm/kernels.h"

namespace fulmar::gpu {

constinit const Kernel kLibraryKernel{
    .name = "library",
    .needs = nullptr,
    .accepts = [](GemmList, const GemmDevice&) { return true; },
    .launch =
        [](const GemmResources& resources, const Queue& queue, GemmList products) {
          run_alone(resources, queue, products.front(), [&](Tensor in, const Weight& weight, Tensor out) {
            resources.library->run(queue, in, weight, out);
          });
        },
    .grouped = false,
};

}  // namespace fulmar::gpu
