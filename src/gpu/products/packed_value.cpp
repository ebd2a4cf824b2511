#include "gpu/products/packed_value.h"

#include "gpu/products/kernels.h"
#include "gpu/products/operands.h"
#include "gpu/products/resources.h"

namespace fulmar::gpu {

void run_packed_value(const GemmResources& resources, const Queue& queue, const Product& product) {
  const auto& [in, weight, out, epilogue] = product;
  const ValuePlan plan = plan_value(in.rows, weight.in, weight.out, resources.device.multiprocessors);
  const int64_t row_groups = (in.rows + kMostValueRows - 1) / kMostValueRows;
  const auto counters = static_cast<size_t>(weight.out / kPackedValueOuts * row_groups);
  linear_packed_value(queue, plan, in, weight, out, resources.partial_sums(plan.partial_bytes),
                      resources.value_counters(counters));
}

constinit const Kernel kSparseQKernel{
    .name = "sparse_q",
    .needs = has_matrix_units,
    .accepts =
        [](ProductList products, const ProductDevice&) {
          const Product& one = products.front();
          return suits_packed_value(one) &&
                 (one.in.rows <= kMostValueRows || (one.in.dtype == DType::f16 && whole_vectors(one.in)));
        },
    .launch = [](const GemmResources& resources, const Queue& queue,
                 ProductList products) { run_packed_value(resources, queue, products.front()); },
};

}  // namespace fulmar::gpu
