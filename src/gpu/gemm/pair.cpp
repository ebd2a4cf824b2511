#include "gpu/gemm/pair.h"

#include "gpu/gemm/fp8.h"
#include "gpu/gemm/skinny.h"
#include "gpu/gemm/skinny_launch.h"
#include "gpu/gemm/skinny_q.h"
#include "gpu/gemm/wgmma_launch.h"

namespace fulmar::gpu {

namespace {

// With more rows either launch fills the GPU by itself, and the shares are too coarse.
constexpr int64_t kMostPairRows = 320;

int64_t outs_of(GemmList products) {
  int64_t outs = 0;
  for (const Gemm& one : products) outs += one.weight.out;
  return outs;
}

bool run_skinny_pair(const GemmResources& resources, const Queue& queue, GemmList first, GemmList second) {
  const Kernel* const kernel = choose_kernel(second, resources.device);
  if (choose_kernel(first, resources.device) != &kSkinnyQKernel) return false;
  if (kernel != &kSkinnyKernel && kernel != &kGemvKernel) return false;
  const int64_t blocks = whole_gpu(resources.device).blocks;
  const SkinnyPair pair = plan_skinny_pair(tile_stream(first), tile_stream(second), blocks);
  if (pair.first == 0) return false;
  Gemv rows[kMostGemms];
  launch_skinny_q(queue, gemvs_of(first, rows), {pair.first, LaunchPlace::first});
  if (kernel == &kSkinnyKernel) {
    launch_skinny(queue, second, LaunchPlace::second);
  } else {
    launch_gemv(queue, gemvs_of(second, rows), {pair.second, LaunchPlace::second});
  }
  return true;
}

bool run_wgmma_pair(const GemmResources& resources, const Queue& queue, GemmList first, GemmList second) {
  const int64_t rows = first.front().in.rows;
  if (rows > kMostPairRows) return false;
  WgmmaLaunch one{choose_kernel(first, resources.device), first};
  const WgmmaLaunch other{choose_kernel(second, resources.device), second};
  if (!by_wgmma(one.kernel) || !by_wgmma(other.kernel) || other.kernel == &kWgmmaFp8Kernel) return false;
  Float8Input storage[kMostGemms];
  if (one.kernel == &kWgmmaFp8Kernel) {
    const int64_t room = float8_room(resources, queue, first);
    if (rows > room) return false;
    one.inputs = quantise(resources, queue, first, {room}, storage);
  }
  if constexpr (kHopperCode) {
    const int64_t outs = outs_of(second), share = 100 * outs / (outs + outs_of(first));
    const WgmmaPair plans = plan_wgmma_pair(
        resources.room, share, [&](const WgmmaRoom& room) { return plan_of(one, room); },
        [&](const WgmmaRoom& room) { return plan_of(other, room); });
    const size_t first_counters = counters_of(plans.first);
    uint32_t* const counters = resources.tile_counters(first_counters + counters_of(plans.second));
    const size_t first_bytes = plans.first.partial_bytes;
    auto* const partial =
        static_cast<std::byte*>(resources.workspace(first_bytes + plans.second.partial_bytes));
    launch_by_wgmma(queue, one, plans.first,
                    {reinterpret_cast<float*>(partial), counters, LaunchPlace::first});
    launch_by_wgmma(
        queue, other, plans.second,
        {reinterpret_cast<float*>(partial + first_bytes), counters + first_counters, LaunchPlace::second});
  }
  return true;
}

}  // namespace

bool run_pair(const GemmResources& resources, const Queue& queue, GemmList first, GemmList second) {
  if (queue.index != kMainQueue || !queue.overlap || resources.device.fixed_order) return false;
  return run_skinny_pair(resources, queue, first, second) || run_wgmma_pair(resources, queue, first, second);
}

}  // namespace fulmar::gpu
