#include "gpu/gemm/gemv.h"

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/operands.h"
#include "gpu/gemm/resources.h"
#include "gpu/gemm/skinny_launch.h"

namespace fulmar::gpu {

constinit const Kernel kGemvKernel{
    .name = "gemv",
    .needs = has_matrix_units,
    .accepts =
        [](GemmList products, const GemmDevice&) {
          return equal_inputs(products) && all_suit_skinny(products) &&
                 all_of(products, [](const Gemm& one) { return suits_gemv(one.weight); });
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, GemmList products) {
          Gemv rows[kMostGemms];
          launch_gemv(queue, gemvs_of(products, rows), whole_gpu(resources.device));
        },
};

}  // namespace fulmar::gpu
