#include "gpu/gemm/wgmma_launch.h"

#include "gpu/gemm/sm90/wgmma_fp8.h"
#include "gpu/gemm/sm90/wgmma_q.h"

namespace fulmar::gpu {

bool by_wgmma(const Kernel* kernel) {
  return kernel == &kWgmmaKernel || kernel == &kWgmmaQKernel || kernel == &kWgmmaFp8Kernel;
}

WgmmaPlan plan_of(const WgmmaLaunch& one, const WgmmaRoom& room, bool whole) {
  if constexpr (kHopperCode) {
    if (one.kernel == &kWgmmaFp8Kernel) return plan_wgmma_fp8(one.products, room, whole);
    const auto plan = one.kernel == &kWgmmaQKernel ? plan_wgmma_q : plan_wgmma;
    return plan(one.products, room, whole);
  }
  return {};
}

void launch_by_wgmma(const Queue& queue, const WgmmaLaunch& one, const WgmmaPlan& plan,
                     const WgmmaWork& work) {
  if constexpr (kHopperCode) {
    if (one.kernel == &kWgmmaFp8Kernel) return launch_wgmma_fp8(queue, one.products, one.inputs, plan, work);
    const auto linear = one.kernel == &kWgmmaQKernel ? launch_wgmma_q : launch_wgmma;
    linear(queue, one.products, plan, work);
  }
}

void run_wgmma(const GemmResources& resources, const Queue& queue, const WgmmaLaunch& one) {
  const bool whole = resources.device.fixed_order || queue.index != kMainQueue;
  const WgmmaPlan plan = plan_of(one, resources.room, whole);
  launch_by_wgmma(queue, one, plan,
                  {resources.partial_sums(plan.partial_bytes), resources.tile_counters(counters_of(plan))});
}

}  // namespace fulmar::gpu
