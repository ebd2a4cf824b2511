#include "gpu/products/packed_rows.h"

#include "gpu/products/few_rows.h"
#include "gpu/products/kernels.h"
#include "gpu/products/operands.h"
#include "gpu/products/resources.h"

namespace fulmar::gpu {

constinit const Kernel kSkinnyQKernel{
    .name = "skinny_q",
    .needs = has_matrix_units,
    .accepts =
        [](ProductList products, const ProductDevice&) {
          const Product& any = products.front();
          return equal_inputs(products) && all_of(products, [&](const Product& one) {
                   return one.weight.dtype == any.weight.dtype && whole_vectors(one.in) &&
                          suits_packed_rows(one.weight, any.in.rows);
                 });
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          RowProduct rows[kMostProducts];
          linear_packed_rows(queue, row_products(products, rows), whole_gpu(resources.device));
        },
};

}  // namespace fulmar::gpu
