#include "gpu/products/operands.h"
#include "gpu/products/panel_launch.h"

namespace fulmar::gpu {

constinit const Kernel kWgmmaKernel{
    .name = "wgmma",
    .needs = has_panels,
    .accepts =
        [](ProductList products, const ProductDevice& device) {
          return all_of(products, [&](const Product& one) { return suits_tiled_out(one, 4, device); });
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          run_panels(resources, queue, {&kWgmmaKernel, products});
        },
};

}  // namespace fulmar::gpu
