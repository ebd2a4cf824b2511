#include "gpu/products/dot_rows.h"

#include "gpu/products/kernels.h"
#include "gpu/products/operands.h"

namespace fulmar::gpu {

static_assert(kMostOwnRows == kMostDotRows);

constinit const Kernel kSimtKernel{
    .name = "simt",
    .needs = has_no_matrix_units,
    .accepts = [](ProductList products, const ProductDevice&) { return all_suit_rows(products); },
    .launch = [](const GemmResources&, const Queue& queue,
                 ProductList products) { linear_dot_rows(queue, products); },
};

}  // namespace fulmar::gpu
