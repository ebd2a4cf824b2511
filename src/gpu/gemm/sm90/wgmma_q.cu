// wgmma GEMM from packed codes, as fragments or transposed: tile shapes and the launch.
#include "gpu/gemm/sm90/store_products.h"
#include "gpu/gemm/sm90/wgmma_kernel.h"
#include "gpu/gemm/sm90/wgmma_q.h"
#include "gpu/gemm/sm90/wgmma_q_fragments.h"
#include "gpu/gemm/sm90/wgmma_q_transposed_operands.h"

namespace fulmar::gpu {

namespace {

constexpr int64_t kPackedStepsPerSubtile = 6, kValueStepsPerSubtile = 4;

template <int kGroupCount, int kTileRows, int kSlices = 1>
using Fragments = PlannedShape<kGroupCount, 1, kTileRows, kPackedInputs, kSlices>;
template <int kTileRows>
using Transposed = PlannedShape<2, 2, kTileRows, kValueStepInputs>;

// Shapes with their time a step on an H200, in hundredths of a microsecond.
constexpr auto kPackedShapes = [](auto&& f) {
  f(Fragments<3, 32>{}, 75);
  f(Fragments<3, 64>{}, 78);
  f(Fragments<2, 160>{}, 95);
  f(Fragments<1, 32>{}, 70);
  f(Fragments<1, 64>{}, 75);
  f(Fragments<4, 32, 2>{}, 42);
  f(Fragments<4, 32, 4>{}, 22);
};

static_assert(shapes_of(kPackedShapes) == kWgmmaQShapeCount);

constexpr auto kPackedValueShapes = [](auto&& f) {
  f(Transposed<32>{}, 50);
  f(Transposed<64>{}, 60);
  f(Transposed<160>{}, 80);
};

// Calls f(kind, layout). 8-bit codes whose only scale is their row's have it applied to the sums; 4-bit codes
// share scales among few inputs.
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
void launch_packed(const Queue& queue, GemmList products, const WgmmaPlan& plan, const Panels& panels) {
  launch_planned<Half, Shape>(queue, panels, packed_operands_of<Operands, Shape>(products),
                              stores_of<Half>(products), plan.blocks);
}

}  // namespace

WgmmaPlan plan_wgmma_q(GemmList products, const WgmmaRoom& room, bool fixed_order) {
  return products.front().weight.by_input()
             ? plan_shapes(products, room, kValueStepsPerSubtile, fixed_order, kPackedValueShapes)
             : plan_shapes(products, room, kPackedStepsPerSubtile, fixed_order, kPackedShapes);
}

void launch_wgmma_q(const Queue& queue, GemmList products, const WgmmaPlan& plan, const WgmmaWork& work) {
  const Weight& any = products.front().weight;
  if (!any.by_input()) {
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
