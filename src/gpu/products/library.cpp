// The vendor's GEMM library as one kernel among the others.
#include "gpu/products/alone.h"
#include "gpu/products/kernels.h"

namespace fulmar::gpu {

constinit const Kernel kLibraryKernel{
    .name = "library",
    .needs = nullptr,
    .accepts = [](ProductList, const ProductDevice&) { return true; },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          run_alone(resources, queue, products.front(), [&](Tensor in, const Weight& weight, Tensor out) {
            resources.library->run(queue, in, weight, out);
          });
        },
    .grouped = false,
};

}  // namespace fulmar::gpu
