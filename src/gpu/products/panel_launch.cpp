#include "gpu/products/panel_launch.h"

#include "gpu/products/sm90/float8_panels.h"
#include "gpu/products/sm90/packed_panels.h"

namespace fulmar::gpu {

bool by_panels(const Kernel* kernel) {
  return kernel == &kWgmmaKernel || kernel == &kWgmmaQKernel || kernel == &kWgmmaFp8Kernel;
}

PanelPlan plan_of(const PanelLaunch& one, const PanelRoom& room, bool whole) {
  if constexpr (kHopperCode) {
    if (one.kernel == &kWgmmaFp8Kernel) return plan_float8_panels(one.products, room, whole);
    const auto plan = one.kernel == &kWgmmaQKernel ? plan_packed_panels : plan_panels;
    return plan(one.products, room, whole);
  }
  return {};
}

void launch_panels(const Queue& queue, const PanelLaunch& one, const PanelPlan& plan, const PanelWork& work) {
  if constexpr (kHopperCode) {
    if (one.kernel == &kWgmmaFp8Kernel)
      return linear_float8_panels(queue, one.products, one.inputs, plan, work);
    const auto linear = one.kernel == &kWgmmaQKernel ? linear_packed_panels : linear_panels;
    linear(queue, one.products, plan, work);
  }
}

void run_panels(const GemmResources& resources, const Queue& queue, const PanelLaunch& one) {
  const bool whole = resources.device.fixed_order || queue.index != kMainQueue;
  const PanelPlan plan = plan_of(one, resources.room, whole);
  launch_panels(queue, one, plan,
                {resources.partial_sums(plan.partial_bytes), resources.tile_counters(counters_of(plan))});
}

}  // namespace fulmar::gpu
