#include "gpu/products/plain.h"

#include "gpu/products/alone.h"
#include "gpu/products/kernels.h"

namespace fulmar::gpu {

constinit const Kernel kNaiveKernel{
    .name = "naive",
    .needs = nullptr,
    .accepts = [](ProductList, const ProductDevice&) { return true; },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          run_alone(resources, queue, products.front(), [&](Tensor in, const Weight& weight, Tensor out) {
            linear_plain(queue, in, weight, out);
          });
        },
    .grouped = false,
};

}  // namespace fulmar::gpu
