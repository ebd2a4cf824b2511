// Panels whose weights are packed codes, as fragments or transposed: shapes of tiles, and the launch.
#include "gpu/products/sm90/packed_fragments.h"
#include "gpu/products/sm90/packed_panels.h"
#include "gpu/products/sm90/packed_value_operands.h"
#include "gpu/products/sm90/panel_kernel.h"
#include "gpu/products/sm90/store_products.h"

namespace fulmar::gpu {

namespace {

constexpr int64_t kPackedStepsPerSubtile = 6, kValueStepsPerSubtile = 4;

template <int kGroupCount, int kTileRows, int kSlices = 1>
using Fragments = PlannedShape<kGroupCount, 1, kTileRows, kPackedInputs, kSlices>;
template <int kTileRows>
using Transposed = PlannedShape<2, 2, kTileRows, kValueStepInputs>;

// As measured on an H200.
constexpr auto kPackedShapes = [](auto&& f) {
  f(Fragments<3, 32>{}, 75);
  f(Fragments<3, 64>{}, 78);
  f(Fragments<2, 160>{}, 95);
  f(Fragments<1, 32>{}, 70);
  f(Fragments<1, 64>{}, 75);
  f(Fragments<4, 32, 2>{}, 42);
  f(Fragments<4, 32, 4>{}, 22);
};

static_assert(shapes_of(kPackedShapes) == kPackedShapeCount);

constexpr auto kPackedValueShapes = [](auto&& f) {
  f(Transposed<32>{}, 50);
  f(Transposed<64>{}, 60);
  f(Transposed<160>{}, 80);
};

// f(kind, layout) of panels: a row's scale comes off sums where codes of 8 bits have no other. Those of 4
// bits share them among few inputs.
template <class F>
void with_panel_kind(const Weight& any, F&& f) {
  with_code_kind(packed_kind(any), packed_scales(any), [&](auto kind, auto scales) {
    if constexpr (bits_of(kind()) == 8 && scales() == ScaleLayout::piece) {
      if (any.group == any.in) return f(kind, std::integral_constant<ScaleLayout, ScaleLayout::row>{});
    }
    f(kind, scales);
  });
}

template <class Operands, class Shape>
void launch_packed(const Queue& queue, ProductList products, const PanelPlan& plan, const Panels& panels) {
  launch_panels<Half, Shape>(queue, panels, packed_operands_of<Operands, Shape>(products),
                             stores_of<Half>(products), plan.blocks);
}

}  // namespace

PanelPlan plan_packed_panels(ProductList products, const PanelRoom& room, bool fixed_order) {
  return products.front().weight.transposed
             ? plan_shapes(products, room, kValueStepsPerSubtile, fixed_order, kPackedValueShapes)
             : plan_shapes(products, room, kPackedStepsPerSubtile, fixed_order, kPackedShapes);
}

void linear_packed_panels(const Queue& queue, ProductList products, const PanelPlan& plan,
                          const PanelWork& work) {
  const Weight& any = products.front().weight;
  if (!any.transposed) {
    return with_panel_kind(any, [&](auto kind, auto scales) {
      with_planned_shape(products, plan, work, kPackedShapes, [&](auto shape, Panels& panels) {
        using Shape = PackedShape<decltype(shape), kind()>;
        let_send(panels, products);
        launch_packed<PackedOperands<Shape, kind(), scales()>, Shape>(queue, products, plan, panels);
      });
    });
  }
  with_code_kind(packed_kind(any), [&](auto kind) {
    if constexpr (kind() == CodeKind::six) {
      FULMAR_CHECK(false, "q6_k is not packed transposed");
    } else {
      with_planned_shape(products, plan, work, kPackedValueShapes, [&](auto shape, Panels& panels) {
        using Shape = PackedValueShape<decltype(shape), kind()>;
        launch_packed<PackedValueOperands<Shape, kind()>, Shape>(queue, products, plan, panels);
      });
    }
  });
}

}  // namespace fulmar::gpu
