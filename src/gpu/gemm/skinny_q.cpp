#include "gpu/gemm/skinny_q.h"

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/operands.h"
#include "gpu/gemm/resources.h"
#include "gpu/gemm/skinny_launch.h"

namespace fulmar::gpu {

constinit const Kernel kSkinnyQKernel{
    .name = "skinny_q",
    .needs = has_matrix_units,
    .accepts =
        [](GemmList products, const GemmDevice&) {
          const Gemm& any = products.front();
          return equal_inputs(products) && all_of(products, [&](const Gemm& one) {
                   return one.weight.dtype == any.weight.dtype && whole_vectors(one.in) &&
                          suits_skinny_q(one.weight, any.in.rows);
                 });
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, GemmList products) {
          Gemv rows[kMostGemms];
          launch_skinny_q(queue, gemvs_of(products, rows), whole_gpu(resources.device));
        },
};

}  // namespace fulmar::gpu
