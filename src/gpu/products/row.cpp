#include "gpu/products/row.h"

#include "gpu/products/few_rows.h"
#include "gpu/products/kernels.h"
#include "gpu/products/operands.h"
#include "gpu/products/resources.h"

namespace fulmar::gpu {

constinit const Kernel kGemvKernel{
    .name = "gemv",
    .needs = has_matrix_units,
    .accepts =
        [](ProductList products, const ProductDevice&) {
          return equal_inputs(products) && all_suit_rows(products) &&
                 all_of(products, [](const Product& one) { return suits_row(one.weight); });
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          RowProduct rows[kMostProducts];
          linear_row(queue, row_products(products, rows), whole_gpu(resources.device));
        },
};

}  // namespace fulmar::gpu
