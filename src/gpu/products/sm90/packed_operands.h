// Operands of panels whose weights are packed codes (packed.h): a consumer has the codes of its outputs on
// their way in registers and widens them there to the left operand of an RS product; inputs come through the
// ring.
#pragma once

#include "base/check.h"
#include "gpu/products/packed_load.h"
#include "gpu/products/sm90/packed_inputs.h"

namespace fulmar::gpu {

// What the producer, which holds inputs on their way, leaves of the registers that the block was given at its
// start: setmaxnreg never ends that asks for more.
constexpr int packed_multiply_registers(int groups, int bring_registers) {
  const int at_start = 65536 / ((groups + 1) * kGroupThreads) / 8 * 8;
  return (at_start * (groups + 1) - bring_registers) / groups / 8 * 8;
}

// kCodesAhead: pieces of codes that each warp has on their way in registers. The producer has kInputsAhead
// parts of inputs there.
template <int kGroupCount, int kTileRows, int kStageCount, int kCodesAhead>
struct PackedShape : PanelTileShape<kGroupCount, 1, kTileRows, kStageCount, kPackedInputs, 0> {
  static constexpr bool kStriped = false;
  static constexpr int kAhead = kCodesAhead, kInputsAhead = kGroupCount > 2 ? 2 : 4,
                       kBringRegisters = kGroupCount > 2 ? 64 : 104;
};

template <int kProducts>
__device__ __forceinline__ void pin_operands(uint32_t (&left)[kProducts][4]) {
#pragma unroll
  for (auto& product : left) {
#pragma unroll
    for (uint32_t& one : product) wgmma_pin(one);
  }
}

__device__ __forceinline__ void leave_stage(uint64_t* empty) {
  if (empty != nullptr && threadIdx.x % kWarp == 0) mbarrier_arrive(empty);
}

// What both orders of codes share.
template <class Shape, CodeKind kKind, class Order>
struct PackedTiles {
  using Bringer = InputBringer<Half, Shape, Order>;
  static constexpr int kBringRegisters = Shape::kBringRegisters,
                       kMultiplyRegisters = packed_multiply_registers(Shape::kGroups, kBringRegisters);
  static constexpr uint32_t kFilling = Bringer::kFilling;

  PackedMatrix weight[kMostProducts];
  Rows<const Half> in[kMostProducts];

  static __device__ __forceinline__ uint32_t (&levels())[kLevelPairs] {
    __shared__ uint32_t table[kLevelPairs];
    return table;
  }
  __device__ __forceinline__ void prepare() const {
    if constexpr (kKind == CodeKind::levels) fill_level_pairs(levels(), weight[0].nf4);
  }
  __device__ __forceinline__ void bring(const Panels& panels, const Ring<Shape>& ring) const {
    pdl_wait();
    Bringer(panels, in).bring(ring);
  }
};

// Codes as fragments, a warp 16 outputs of its group's 64.
template <class Shape, CodeKind kKind>
struct PackedOperands : PackedTiles<Shape, kKind, FragmentOrder> {
  using Base = PackedTiles<Shape, kKind, FragmentOrder>;
  using T = Half;

  class Consumer {
   public:
    static constexpr int kAhead = bits_of(kKind) == 8 ? (Shape::kAhead + 1) / 2 : Shape::kAhead;

    __device__ __forceinline__ Consumer(const Base& operands, int group)
        : operands_(operands), warp_(group * 4 + static_cast<int>(threadIdx.x) % kGroupThreads / kWarp) {}

    __device__ __forceinline__ void begin(const Segment& at) {
#pragma unroll
      for (int i = 0; i < kAhead; i++) fetch(next_[i], at, i);
    }
    __device__ __forceinline__ void multiply(const Segment& at, Ring<Shape>& ring, PanelSums<Shape>& sum) {
      uint64_t* previous = nullptr;  // the stage whose products may not have finished
      int step = 0;
      for (; step + kAhead <= at.steps; step += kAhead) {
#pragma unroll
        for (int i = 0; i < kAhead; i++) {
          multiply_step<1>(next_[i], at, step + i, ring, previous, sum);
        }
      }
      wgmma_wait<0>();
      leave_stage(previous);
      previous = nullptr;
#pragma unroll
      for (int i = 0; i < kAhead; i++) {
        if (step + i >= at.steps) break;
        multiply_step<0>(next_[i], at, step + i, ring, previous, sum);
      }
      leave_stage(previous);
      pin_sums<Shape>(sum);
    }

   private:
    // Widens a piece by halves and commits their products, kPending of which may be unfinished behind it, and
    // has the next piece for its place on the way.
    template <int kPending>
    __device__ __forceinline__ void multiply_step(PackedPiece<kKind>& piece, const Segment& at, int step,
                                                  Ring<Shape>& ring, uint64_t*& previous,
                                                  PanelSums<Shape>& sum) {
      mbarrier_wait(&ring.full[ring.place], ring.phase);
      const uint64_t in = wgmma_matrix(ring.first(), 0);
      uint32_t left[kHalf][4];
      const auto take = [&](int vector, const uint32_t(&first)[4], const uint32_t(&second)[4]) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
          left[2 * vector % kHalf][e] = first[e], left[2 * vector % kHalf + 1][e] = second[e];
        }
        if (vector % 2 == 0) return;
        if (vector == 3) fetch(piece, at, step + kAhead);
        pin_operands(left);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < kHalf; i++) {
          const int product = vector / 2 * kHalf + i;
          wgmma_registers<Shape::kRows>(sum[0], left[i], packed_inputs<Shape::kRows>(in, product),
                                        step > 0 || product > 0);
        }
        wgmma_commit();
        wgmma_wait<kPending>();
        if (vector == 1) leave_stage(previous);
      };
      widen_piece<T>(piece, operands_.weight[at.product], operands_.levels(), take);
      previous = &ring.empty[ring.place];
      ring.next();
    }
    __device__ __forceinline__ void fetch(PackedPiece<kKind>& to, const Segment& at, int step) const {
      if (step >= at.steps) return;
      const PackedMatrix& matrix = operands_.weight[at.product];
      const int tile = min(at.first_out / kPackedOuts + warp_, (matrix.outs - 1) / kPackedOuts);
      load_piece(to, matrix, tile, at.first + step);
    }

    static constexpr int kHalf = kPackedProducts / 2;
    const Base& operands_;
    int warp_;
    PackedPiece<kKind> next_[kAhead];
  };
};

// `Operands` of packed codes for these products.
template <class Operands>
Operands packed_operands_of(ProductList list) {
  Operands operands{};
  int i = 0;
  for (const Product& one : list) {
    FULMAR_CHECK(one.weight.dtype == list.front().weight.dtype && one.in.dtype == DType::f16);
    operands.weight[i] = packed_matrix_of(one.weight);
    operands.in[i++] = rows_of<const Half>(one.in);
  }
  return operands;
}

}  // namespace fulmar::gpu
