#include "gpu/gemm/operands.h"
#include "gpu/gemm/wgmma_launch.h"

namespace fulmar::gpu {

constinit const Kernel kWgmmaQKernel{
    .name = "wgmma_q",
    .needs = has_wgmma,
    .accepts =
        [](GemmList products, const GemmDevice&) {
          const Gemm& any = products.front();
          if (any.in.dtype != DType::f16 || !whole_vectors(any.in)) return false;
          if (any.weight.by_input()) return products.size() == 1 && suits_sparse_q(any);
          return suit_packed(products) && outs_by_fours(products);
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, GemmList products) {
          run_wgmma(resources, queue, {&kWgmmaQKernel, products});
        },
};

}  // namespace fulmar::gpu
