// Panels whose weights are packed codes, as fragments or transposed: shapes of tiles, and the launch.
#include "gpu/products/sm90/packed_panels.h"
#include "gpu/products/sm90/packed_value_operands.h"
#include "gpu/products/sm90/panel_kernel.h"
#include "gpu/products/sm90/store_products.h"

namespace fulmar::gpu {

namespace {

constexpr int64_t kPackedStepsPerSubtile = 10;

// As measured on an H200.
constexpr auto kPackedShapes = [](auto&& f) {
  f(PackedShape<3, 32, 8, 4>{}, 45);
  f(PackedShape<3, 64, 6, 2>{}, 55);
  f(PackedShape<3, 128, 4, 2>{}, 90);
  f(PackedShape<2, 160, 4, 2>{}, 85);
  f(PackedShape<1, 32, 8, 4>{}, 24);
  f(PackedShape<1, 64, 6, 2>{}, 32);
};

static_assert(shapes_of(kPackedShapes) == kPackedShapeCount);

constexpr auto kPackedValueShapes = [](auto&& f) {
  f(PackedValueShape<2, 32, 8, 4>{}, 120);
  f(PackedValueShape<2, 64, 6, 2>{}, 160);
};

template <class Operands, class Shape>
void launch_packed(const Queue& queue, ProductList products, const PanelPlan& plan, Panels& panels) {
  launch_panels<Half, Shape>(queue, panels, packed_operands_of<Operands>(products), stores_of<Half>(products),
                             plan.blocks);
}

}  // namespace

PanelPlan plan_packed_panels(ProductList products, int multiprocessors, bool fixed_order) {
  return products.front().weight.transposed
             ? plan_shapes(products, multiprocessors, kPackedStepsPerSubtile, fixed_order, kPackedValueShapes)
             : plan_shapes(products, multiprocessors, kPackedStepsPerSubtile, fixed_order, kPackedShapes);
}

void linear_packed_panels(const Queue& queue, ProductList products, const PanelPlan& plan, float* partial,
                          uint32_t* counters) {
  with_code_kind(packed_kind(products.front().weight), [&](auto kind) {
    if (products.front().weight.transposed) {
      if constexpr (kind() == CodeKind::six) {
        FULMAR_CHECK(false, "q6_k is not packed transposed");
      } else {
        with_planned_shape(
            products, plan, partial, counters, kPackedValueShapes, [&](auto shape, Panels& panels) {
              using Shape = decltype(shape);
              launch_packed<PackedValueOperands<Shape, kind()>, Shape>(queue, products, plan, panels);
            });
      }
      return;
    }
    with_planned_shape(products, plan, partial, counters, kPackedShapes, [&](auto shape, Panels& panels) {
      using Shape = decltype(shape);
      let_send(panels, products);
      launch_packed<PackedOperands<Shape, kind()>, Shape>(queue, products, plan, panels);
    });
  });
}

}  // namespace fulmar::gpu
