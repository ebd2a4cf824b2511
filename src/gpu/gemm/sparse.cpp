#include "gpu/gemm/sparse.h"

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/resources.h"

namespace fulmar::gpu {

constinit const Kernel kSparseKernel{
    .name = "sparse",
    .needs = has_matrix_units,
    .accepts =
        [](GemmList products, const GemmDevice&) {
          const auto& [in, weight, out, epilogue] = products.front();
          return epilogue == Epilogue::none && out.dtype == weight.dtype && in.dtype == weight.dtype &&
                 suits_sparse(in.rows, weight);
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, GemmList products) {
          const auto& [in, weight, out, epilogue] = products.front();
          const SparsePlan plan =
              plan_sparse(in.rows, weight.in, weight.out, resources.device.multiprocessors);
          const auto counters = static_cast<size_t>(weight.out / kSparseOuts);
          launch_sparse(queue, plan, products.front(),
                        {resources.partial_sums(plan.partial_bytes), resources.value_counters(counters)});
        },
};

}  // namespace fulmar::gpu
