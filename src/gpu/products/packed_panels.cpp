#include "gpu/products/operands.h"
#include "gpu/products/panel_launch.h"

namespace fulmar::gpu {

constinit const Kernel kWgmmaQKernel{
    .name = "wgmma_q",
    .needs = has_panels,
    .accepts =
        [](ProductList products, const ProductDevice&) {
          const Product& any = products.front();
          if (any.in.dtype != DType::f16 || !whole_vectors(any.in)) return false;
          if (any.weight.transposed) return products.size() == 1 && suits_packed_value(any);
          return suit_packed(products) && outs_by_fours(products);
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          run_panels(resources, queue, {&kWgmmaQKernel, products});
        },
};

}  // namespace fulmar::gpu
