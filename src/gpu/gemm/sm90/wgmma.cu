// Independent products in one launch for more rows than launch_skinny takes, on GPUs of compute capability
// 9.0: the tile shapes with their measured times, and the launch with its epilogues.
#include <algorithm>

#include "gpu/gemm/sm90/store_products.h"
#include "gpu/gemm/sm90/wgmma.h"
#include "gpu/gemm/sm90/wgmma_kernel.h"
#include "gpu/gemm/sm90/wgmma_operands.h"

namespace fulmar::gpu {

namespace {

// The shapes; those of one warp group were measured on an H200, too.
constexpr auto kPanelShapes = [](auto&& f) {
  kWideShapes(f);
  f(PanelShape<1, 32, 14, 1>{}, 25);
  f(PanelShape<1, 64, 10, 1>{}, 28);
  f(PanelShape<1, 160, 6, 1>{}, 50);
};

static_assert(shapes_of(kPanelShapes) == kWgmmaShapeCount);

}  // namespace

WgmmaRoom wgmma_room(int multiprocessors) {
  using Shape = PanelShape<2, 160, 4>;
  const auto kernel = panels_kernel<Half, Shape, PanelOperands<Half, Shape>, StoreProducts<Half>>;
  allow_shared(kernel, Shape::kBytes);
  WgmmaRoom room{multiprocessors};
  for (int blocks = 2; blocks <= kMostClusterBlocks; blocks++) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(Shape::kThreads);
    config.dynamicSmemBytes = Shape::kBytes;
    config.attrs = &cluster;
    config.numAttrs = 1;
    FULMAR_GPU(cudaOccupancyMaxActiveClusters(&room.clusters[static_cast<size_t>(blocks)], kernel, &config));
  }
  return room;
}

WgmmaRoom room_without(const WgmmaRoom& room, int64_t others) {
  WgmmaRoom left{static_cast<int>(room.multiprocessors - others)};
  for (int blocks = 2; blocks <= kMostClusterBlocks; blocks++) {
    const auto i = static_cast<size_t>(blocks);
    left.clusters[i] = std::min(room.clusters[i], left.multiprocessors / blocks);
  }
  return left;
}

WgmmaPlan plan_wgmma(GemmList products, const WgmmaRoom& room, bool fixed_order) {
  return plan_shapes(products, room, kStepsPerSubtile, fixed_order, kPanelShapes);
}

void launch_wgmma(const Queue& queue, GemmList products, const WgmmaPlan& plan, const WgmmaWork& work) {
  with_activation(products.front().in.dtype, [&](auto sample) {
    using T = decltype(sample);
    with_planned_shape(products, plan, work, kPanelShapes, [&](auto shape, Panels& panels) {
      using Shape = decltype(shape);
      let_send(panels, products);
      launch_planned<T, Shape>(queue, panels, panel_operands_of<T, Shape>(products), stores_of<T>(products),
                               plan.blocks);
    });
  });
}

}  // namespace fulmar::gpu
