#include "gpu/products/pair.h"

#include "gpu/products/few_rows.h"
#include "gpu/products/float8.h"
#include "gpu/products/packed_rows.h"
#include "gpu/products/panel_launch.h"
#include "gpu/products/rows.h"

namespace fulmar::gpu {

namespace {

// With more rows either fills the GPU by itself, and a share is too coarse.
constexpr int64_t kMostPairRows = 320;

int64_t outs_of(ProductList products) {
  int64_t outs = 0;
  for (const Product& one : products) outs += one.weight.out;
  return outs;
}

bool run_few_rows_pair(const GemmResources& resources, const Queue& queue, ProductList first,
                       ProductList second) {
  const Kernel* const kernel = choose_kernel(second, resources.device);
  if (choose_kernel(first, resources.device) != &kSkinnyQKernel) return false;
  if (kernel != &kSkinnyKernel && kernel != &kGemvKernel) return false;
  const int64_t blocks = whole_gpu(resources.device).blocks;
  const FewRowsPair pair = plan_few_rows_pair(tile_stream(first), tile_stream(second), blocks);
  if (pair.first == 0) return false;
  RowProduct rows[kMostProducts];
  linear_packed_rows(queue, row_products(first, rows), {pair.first, LaunchPlace::first});
  if (kernel == &kSkinnyKernel) {
    linear_rows(queue, second, LaunchPlace::second);
  } else {
    linear_row(queue, row_products(second, rows), {pair.second, LaunchPlace::second});
  }
  return true;
}

bool run_panel_pair(const GemmResources& resources, const Queue& queue, ProductList first,
                    ProductList second) {
  const int64_t rows = first.front().in.rows;
  if (rows > kMostPairRows) return false;
  PanelLaunch one{choose_kernel(first, resources.device), first};
  const PanelLaunch other{choose_kernel(second, resources.device), second};
  if (!by_panels(one.kernel) || !by_panels(other.kernel) || other.kernel == &kWgmmaFp8Kernel) return false;
  Float8Input storage[kMostProducts];
  if (one.kernel == &kWgmmaFp8Kernel) {
    const int64_t room = float8_room(resources, queue, first);
    if (rows > room) return false;
    one.inputs = quantise(resources, queue, first, {room}, storage);
  }
  if constexpr (kHopperCode) {
    const int64_t outs = outs_of(second), share = 100 * outs / (outs + outs_of(first));
    const PanelPair plans = plan_panel_pair(
        resources.room, share, [&](const PanelRoom& room) { return plan_of(one, room); },
        [&](const PanelRoom& room) { return plan_of(other, room); });
    const size_t first_counters = counters_of(plans.first);
    uint32_t* const counters = resources.tile_counters(first_counters + counters_of(plans.second));
    const size_t first_bytes = plans.first.partial_bytes;
    auto* const partial =
        static_cast<std::byte*>(resources.workspace(first_bytes + plans.second.partial_bytes));
    launch_panels(queue, one, plans.first, {reinterpret_cast<float*>(partial), counters, LaunchPlace::first});
    launch_panels(
        queue, other, plans.second,
        {reinterpret_cast<float*>(partial + first_bytes), counters + first_counters, LaunchPlace::second});
  }
  return true;
}

}  // namespace

bool run_pair(const GemmResources& resources, const Queue& queue, ProductList first, ProductList second) {
  if (queue.index != kMainQueue || !queue.overlap || resources.device.fixed_order) return false;
  return run_few_rows_pair(resources, queue, first, second) ||
         run_panel_pair(resources, queue, first, second);
}

}  // namespace fulmar::gpu
