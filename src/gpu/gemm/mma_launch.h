// How the two mma.sync kernels, mma.cu and mma_q.cu, are planned and launched.
#pragma once

#include "gpu/gemm/mma.h"
#include "gpu/gemm/resources.h"

namespace fulmar::gpu {

template <class Plan, class Linear>
void run_mma(const GemmResources& resources, const Queue& queue, GemmList products, Plan plan_of,
             Linear linear) {
  const MmaPlan plan = plan_of(products, resources.device.multiprocessors, resources.device.fixed_order);
  const size_t counters = plan.slices == 1 ? 0 : static_cast<size_t>(plan.tiles);
  linear(queue, products, plan, resources.partial_sums(plan.partial_bytes),
         resources.tile_counters(counters));
}

}  // namespace fulmar::gpu
