// Independent products in one launch for more rows than linear_rows takes, on GPUs of compute capability 9.0:
// the shape of tiles by what each should take, and the epilogues that a Product names.
#include <algorithm>

#include "gpu/products/sm90/panel_kernel.h"
#include "gpu/products/sm90/panel_operands.h"
#include "gpu/products/sm90/panels.h"
#include "gpu/products/sm90/store_products.h"

namespace fulmar::gpu {

namespace {

// Those of one group as measured on an H200, too.
constexpr auto kPanelShapes = [](auto&& f) {
  kWideShapes(f);
  f(PanelShape<1, 32, 14, 1>{}, 25);
  f(PanelShape<1, 64, 10, 1>{}, 28);
  f(PanelShape<1, 160, 6, 1>{}, 50);
};

static_assert(shapes_of(kPanelShapes) == kPanelShapeCount);

}  // namespace

PanelRoom panel_room(int multiprocessors) {
  using Shape = PanelShape<2, 160, 4>;
  const auto kernel = panels_kernel<Half, Shape, PanelOperands<Half, Shape>, StoreProducts<Half>>;
  allow_shared(kernel, Shape::kBytes);
  PanelRoom room{multiprocessors};
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

PanelRoom room_without(const PanelRoom& room, int64_t others) {
  PanelRoom left{static_cast<int>(room.multiprocessors - others)};
  for (int blocks = 2; blocks <= kMostClusterBlocks; blocks++) {
    const auto i = static_cast<size_t>(blocks);
    left.clusters[i] = std::min(room.clusters[i], left.multiprocessors / blocks);
  }
  return left;
}

PanelPlan plan_panels(ProductList products, const PanelRoom& room, bool fixed_order) {
  return plan_shapes(products, room, kStepsPerSubtile, fixed_order, kPanelShapes);
}

void linear_panels(const Queue& queue, ProductList products, const PanelPlan& plan, const PanelWork& work) {
  with_activation(products.front().in.dtype, [&](auto sample) {
    using T = decltype(sample);
    with_planned_shape(products, plan, work, kPanelShapes, [&](auto shape, Panels& panels) {
      using Shape = decltype(shape);
      let_send(panels, products);
      launch_panels<T, Shape>(queue, panels, panel_operands_of<T, Shape>(products), stores_of<T>(products),
                              plan.blocks);
    });
  });
}

}  // namespace fulmar::gpu
