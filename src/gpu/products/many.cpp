#include "gpu/products/sm90/many.h"

#include "gpu/products/kernels.h"
#include "gpu/products/operands.h"
#include "gpu/products/resources.h"

namespace fulmar::gpu {

constinit const Kernel kMulticastKernel{
    .name = "multicast",
    .needs = has_panels,
    .accepts =
        [](ProductList products, const ProductDevice& device) {
          const Product& one = products.front();
          return many_rows_pay(one.in.rows) && suits_tiled_out(one, 8, device);
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          if constexpr (kHopperCode) linear_many(queue, products.front(), resources.device.multiprocessors);
        },
};

}  // namespace fulmar::gpu
