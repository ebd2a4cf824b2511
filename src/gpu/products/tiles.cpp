#include "gpu/products/tiles.h"

#include "gpu/products/kernels.h"
#include "gpu/products/operands.h"
#include "gpu/products/tile_launch.h"

namespace fulmar::gpu {

constinit const Kernel kMmaKernel{
    .name = "mma",
    .needs = has_no_panels,
    .accepts =
        [](ProductList products, const ProductDevice& device) {
          return equal_inputs(products) &&
                 all_of(products, [&](const Product& one) { return suits_tiled_out(one, 4, device); });
        },
    .launch = [](const GemmResources& resources, const Queue& queue,
                 ProductList products) { run_tiles(resources, queue, products, plan_tiles, linear_tiles); },
};

}  // namespace fulmar::gpu
