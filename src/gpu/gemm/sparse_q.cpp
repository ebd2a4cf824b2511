#include "gpu/gemm/sparse_q.h"

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/operands.h"
#include "gpu/gemm/resources.h"

namespace fulmar::gpu {

void run_sparse_q(const GemmResources& resources, const Queue& queue, const Gemm& product) {
  const auto& [in, weight, out, epilogue] = product;
  const SparsePlan plan = plan_sparse(in.rows, weight.in, weight.out, resources.device.multiprocessors);
  const int64_t row_groups = (in.rows + kMostSparseRows - 1) / kMostSparseRows;
  const auto counters = static_cast<size_t>(weight.out / kPackedValueOuts * row_groups);
  launch_sparse_q(queue, plan, product,
                  {resources.partial_sums(plan.partial_bytes), resources.value_counters(counters)});
}

constinit const Kernel kSparseQKernel{
    .name = "sparse_q",
    .needs = has_matrix_units,
    .accepts =
        [](GemmList products, const GemmDevice&) {
          const Gemm& one = products.front();
          return suits_sparse_q(one) &&
                 (one.in.rows <= kMostSparseRows || (one.in.dtype == DType::f16 && whole_vectors(one.in)));
        },
    .launch = [](const GemmResources& resources, const Queue& queue,
                 GemmList products) { run_sparse_q(resources, queue, products.front()); },
};

}  // namespace fulmar::gpu
