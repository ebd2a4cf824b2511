#include "gpu/products/dot_value.h"

#include "gpu/products/kernels.h"
#include "gpu/products/resources.h"

namespace fulmar::gpu {

constinit const Kernel kSimtSparseKernel{
    .name = "simt_sparse",
    .needs = has_no_matrix_units,
    .accepts =
        [](ProductList products, const ProductDevice&) {
          return suits_dot_value(products.front().in, products.front().weight);
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          const Product& product = products.front();
          const DotValuePlan plan = plan_dot_value(product.in.rows, product.weight);
          linear_dot_value(queue, plan, product, resources.partial_sums(plan.partial_bytes),
                           resources.value_counters(static_cast<size_t>(plan.blocks)));
        },
};

}  // namespace fulmar::gpu
