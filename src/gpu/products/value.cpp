#include "gpu/products/value.h"

#include "gpu/products/kernels.h"
#include "gpu/products/resources.h"

namespace fulmar::gpu {

constinit const Kernel kSparseKernel{
    .name = "sparse",
    .needs = has_matrix_units,
    .accepts =
        [](ProductList products, const ProductDevice&) {
          const auto& [in, weight, out, epilogue] = products.front();
          return epilogue == Epilogue::none && out.dtype == weight.dtype && in.dtype == weight.dtype &&
                 suits_value(in.rows, weight);
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, ProductList products) {
          const auto& [in, weight, out, epilogue] = products.front();
          const ValuePlan plan = plan_value(in.rows, weight.in, weight.out, resources.device.multiprocessors);
          linear_value(queue, plan, in, weight, out, resources.partial_sums(plan.partial_bytes),
                       resources.value_counters(static_cast<size_t>(weight.out / kValueOuts)));
        },
};

}  // namespace fulmar::gpu
