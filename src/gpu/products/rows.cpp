#include "gpu/products/rows.h"

#include "gpu/products/kernels.h"
#include "gpu/products/operands.h"

namespace fulmar::gpu {

constinit const Kernel kSkinnyKernel{
    .name = "skinny",
    .needs = has_matrix_units,
    .accepts = [](ProductList products, const ProductDevice&) { return all_suit_rows(products); },
    .launch = [](const GemmResources&, const Queue& queue,
                 ProductList products) { linear_rows(queue, products); },
};

}  // namespace fulmar::gpu
