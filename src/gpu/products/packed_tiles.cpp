#include "gpu/products/packed_tiles.h"

#include "gpu/products/kernels.h"
#include "gpu/products/operands.h"
#include "gpu/products/tile_launch.h"

namespace fulmar::gpu {

constinit const Kernel kMmaQKernel{
    .name = "mma_q",
    .needs = has_matrix_units,
    .accepts =
        [](ProductList products, const ProductDevice&) {
          return products.front().in.dtype == DType::f16 && suit_packed(products) && equal_inputs(products) &&
                 outs_by_fours(products);
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          run_tiles(resources, queue, products, plan_packed_tiles, linear_packed_tiles);
        },
};

}  // namespace fulmar::gpu
