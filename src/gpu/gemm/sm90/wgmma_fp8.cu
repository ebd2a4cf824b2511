// wgmma takes 32 bytes of either operand's row at a time, whatever their type, so E4M3 uses the rings and
// plans of 16 bits, with half as many numbers a row.
#include "gpu/gemm/sm90/store_products.h"
#include "gpu/gemm/sm90/wgmma_fp8.h"
#include "gpu/gemm/sm90/wgmma_kernel.h"
#include "gpu/gemm/sm90/wgmma_operands.h"

namespace fulmar::gpu {

namespace {

// Scales a tile's sums by its outputs' and rows' scales; partial sums, too, since that is linear.
template <class Shape>
struct Float8Operands : PanelOperands<Float8, Shape> {
  using Unscaled = PanelOperands<Float8, Shape>;

  const float *weight_scales[kMostGemms], *in_scales[kMostGemms];  // [outs], [rows]
  int outs[kMostGemms], rows;

  class Consumer : public Unscaled::Consumer {
   public:
    __device__ __forceinline__ Consumer(const Float8Operands& operands, int group)
        : Unscaled::Consumer(operands, group), operands_(operands), group_(group) {}

    __device__ __forceinline__ void multiply(const Segment& at, Ring<Shape>& ring, PanelSums<Shape>& sum) {
      Unscaled::Consumer::multiply(at, ring, sum);
      const int thread = threadIdx.x % kGroupThreads, lane = thread % kWarp, g = lane / 4, q = lane % 4;
      const float* by_out = operands_.weight_scales[at.product];
      float out_scale[Shape::kOutTiles][2];
#pragma unroll
      for (int m = 0; m < Shape::kOutTiles; m++) {
        const int out = at.first_out + (group_ * Shape::kOutTiles + m) * kGroupOuts + thread / kWarp * 16 + g;
#pragma unroll
        for (int i = 0; i < 2; i++) {
          out_scale[m][i] = by_out[min(out + 8 * i, operands_.outs[at.product] - 1)];
        }
      }
      const int last_pair = (operands_.rows - 1) & ~1;
#pragma unroll
      for (int j = 0; j < Shape::kRows / 8; j++) {
        const int row = min(at.first_row + 8 * j + 2 * q, last_pair);
        const float2 by = *reinterpret_cast<const float2*>(operands_.in_scales[at.product] + row);
#pragma unroll
        for (int m = 0; m < Shape::kOutTiles; m++) {
          float* own = sum[m] + 4 * j;
          own[0] *= out_scale[m][0] * by.x, own[1] *= out_scale[m][0] * by.y;
          own[2] *= out_scale[m][1] * by.x, own[3] *= out_scale[m][1] * by.y;
        }
      }
    }

   private:
    const Float8Operands& operands_;
    int group_;
  };
};

// The products in terms of 16-bit numbers, each of which is two codes.
struct PairedProducts {
  Gemm each[kMostGemms];
  size_t count = 0;

  explicit PairedProducts(GemmList products, std::span<const Float8Input> inputs = {}) {
    for (const Gemm& one : products) {
      Gemm& paired = each[count] = one;
      paired.weight.dtype = DType::f16, paired.weight.in /= 2;
      paired.in = inputs.empty() ? one.in : inputs[count].codes;
      paired.in.dtype = DType::f16;
      paired.in.cols = paired.in.stride = paired.weight.in;
      count++;
    }
  }
  GemmList list() const { return {each, count}; }
};

template <class Shape>
Float8Operands<Shape> float8_operands_of(GemmList paired, std::span<const Float8Input> inputs) {
  Float8Operands<Shape> operands{panel_operands_of<Float8, Shape>(paired)};
  operands.rows = static_cast<int>(paired.front().in.rows);
  for (size_t i = 0; i < paired.size(); i++) {
    operands.weight_scales[i] = paired[i].weight.scales;
    operands.in_scales[i] = inputs[i].scales;
    operands.outs[i] = static_cast<int>(paired[i].weight.out);
  }
  return operands;
}

}  // namespace

WgmmaPlan plan_wgmma_fp8(GemmList products, const WgmmaRoom& room, bool whole) {
  return plan_shapes(PairedProducts(products).list(), room, kStepsPerSubtile, whole, kWideShapes);
}

void launch_wgmma_fp8(const Queue& queue, GemmList products, std::span<const Float8Input> inputs,
                      const WgmmaPlan& plan, const WgmmaWork& work) {
  const PairedProducts paired(products, inputs);
  with_planned_shape(paired.list(), plan, work, kWideShapes, [&](auto shape, Panels& panels) {
    using Shape = decltype(shape);
    let_send(panels, paired.list());
    launch_planned<Half, Shape>(queue, panels, float8_operands_of<Shape>(paired.list(), inputs),
                                stores_of<Half>(products), plan.blocks);
  });
}

}  // namespace fulmar::gpu
