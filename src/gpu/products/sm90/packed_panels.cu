// Panels whose weights are packed codes, as fragments or transposed: shapes of tiles, and the launch.
#include "gpu/products/sm90/packed_fragments.h"
#include "gpu/products/sm90/packed_panels.h"
#include "gpu/products/sm90/packed_value_operands.h"
#include "gpu/products/sm90/panel_kernel.h"
#include "gpu/products/sm90/store_products.h"

namespace fulmar::gpu {

namespace {

constexpr int64_t kPackedStepsPerSubtile = 6, kValueStepsPerSubtile = 4;

template <int kGroupCount, int kTileRows>
using Fragments = PlannedShape<kGroupCount, 1, kTileRows, kPackedInputs>;
template <int kTileRows>
using Transposed = PlannedShape<2, 2, kTileRows, kValueStepInputs>;

// As measured on an H200.
constexpr auto kPackedShapes = [](auto&& f) {
  f(Fragments<3, 32>{}, 75);
  f(Fragments<3, 64>{}, 78);
  f(Fragments<2, 160>{}, 95);
  f(Fragments<1, 32>{}, 70);
  f(Fragments<1, 64>{}, 75);
};

static_assert(shapes_of(kPackedShapes) == kPackedShapeCount);

constexpr auto kPackedValueShapes = [](auto&& f) {
  f(Transposed<32>{}, 50);
  f(Transposed<64>{}, 60);
  f(Transposed<160>{}, 80);
};

template <class Operands, class Shape>
void launch_packed(const Queue& queue, ProductList products, const PanelPlan& plan, const Panels& panels) {
  launch_panels<Half, Shape>(queue, panels, packed_operands_of<Operands, Shape>(products),
                             stores_of<Half>(products), plan.blocks);
}

// f(layout) with ScaleLayout::factors as a constant for blocks; what other formats have is found at run time.
template <CodeKind kKind, class F>
void with_factors(const Weight& weight, F&& f) {
  if constexpr (kKind != CodeKind::float8) {
    if (is_block(weight.dtype)) {
      return f(std::integral_constant<ScaleLayout, ScaleLayout::factors>{});
    }
  }
  if constexpr (!has_supers(kKind)) f(std::integral_constant<ScaleLayout, ScaleLayout::any>{});
}

}  // namespace

PanelPlan plan_packed_panels(ProductList products, int multiprocessors, bool fixed_order) {
  return products.front().weight.transposed
             ? plan_shapes(products, multiprocessors, kValueStepsPerSubtile, fixed_order, kPackedValueShapes)
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
              using Shape = PackedValueShape<decltype(shape), kind()>;
              launch_packed<PackedValueOperands<Shape, kind()>, Shape>(queue, products, plan, panels);
            });
      }
      return;
    }
    with_planned_shape(products, plan, partial, counters, kPackedShapes, [&](auto shape, Panels& panels) {
      using Shape = PackedShape<decltype(shape), kind()>;
      let_send(panels, products);
      with_factors<kind()>(products.front().weight, [&](auto scales) {
        launch_packed<PackedOperands<Shape, kind(), scales()>, Shape>(queue, products, plan, panels);
      });
    });
  });
}

}  // namespace fulmar::gpu
