// Operands of panels whose weight is packed transposed (packed.h), a row of codes for each input: a lane
// holds eight neighbouring outputs of the inputs that it multiplies, pairs of four tiles of an RS product.
#pragma once

#include "gpu/products/packed_value_load.h"
#include "gpu/products/sm90/packed_operands.h"

namespace fulmar::gpu {

template <int kGroupCount, int kTileRows, int kStageCount, int kCodesAhead>
struct PackedValueShape : PanelTileShape<kGroupCount, 4, kTileRows, kStageCount, kPackedInputs, 0> {
  static constexpr bool kStriped = true;
  static constexpr int kAhead = kCodesAhead, kInputsAhead = 2, kBringRegisters = kGroupCount > 2 ? 64 : 72;
};

template <class Shape, CodeKind kKind>
struct PackedValueOperands : PackedTiles<Shape, kKind, TransposedOrder> {
  using Base = PackedTiles<Shape, kKind, TransposedOrder>;
  using T = Half;

  class Consumer {
   public:
    __device__ __forceinline__ Consumer(const Base& operands, int group)
        : operands_(operands),
          out_(group * StripedOutputs<Shape>::kGroupAll +
               static_cast<int>(threadIdx.x) % kGroupThreads / 4 * kKeptLaneOuts) {}

    __device__ __forceinline__ void begin(const Segment& at) {
#pragma unroll
      for (int i = 0; i < kAhead; i++) fetch(next_[i], at, i);
    }
    __device__ __forceinline__ void multiply(const Segment& at, Ring<Shape>& ring, PanelSums<Shape>& sum) {
      uint64_t* previous = nullptr;  // the stage whose products may not have finished
      for (int step = 0; step < at.steps; step++) {
        mbarrier_wait(&ring.full[ring.place], ring.phase);
        const uint64_t first = wgmma_matrix(ring.first(), 0);
#pragma unroll
        for (int group = 0; group < kGroupsOfStep; group++) {
          Unit& unit = next_[group % kAhead];
          PackedFactor by[kKeptLaneOuts];
          value_factors_of(unit.factors, operands_.weight[at.product], by);
#pragma unroll
          for (int half = 0; half < 2; half++) {
            uint32_t left[4][4];
            widen_value<T>(unit.codes[half], by, operands_.levels(), [&](int j, const uint32_t(&from)[4]) {
#pragma unroll
              for (int e = 0; e < 4; e++) left[j][e] = from[e];
            });
            if (half == 1) fetch(unit, at, step * kGroupsOfStep + group + kAhead);
            pin_operands(left);
            wgmma_fence();
            const uint64_t in = packed_inputs<Shape::kRows>(first, 2 * group + half);
#pragma unroll
            for (int j = 0; j < 4; j++) {
              wgmma_registers<Shape::kRows>(sum[j], left[j], in, step > 0 || group > 0 || half > 0);
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (group == 0 && half == 0) leave_stage(previous);
          }
        }
        previous = &ring.empty[ring.place];
        ring.next();
      }
      wgmma_wait<0>();
      leave_stage(previous);
      pin_sums<Shape>(sum);
    }

   private:
    // 32 inputs, which share scales: two products.
    static constexpr int kGroupsOfStep = kPackedInputs / kPackedGroup;
    static constexpr int kAhead = bits_of(kKind) == 8 ? (Shape::kAhead + 1) / 2 : Shape::kAhead;  // units
    struct Unit {
      ValueCodes<kKind> codes[2];
      ValueFactors<kKind> factors;
    };

    __device__ __forceinline__ void fetch(Unit& to, const Segment& at, int unit) const {
      if (unit >= at.steps * kGroupsOfStep) return;
      const PackedMatrix& matrix = operands_.weight[at.product];
      const int out = min(at.first_out + out_, matrix.outs - kKeptLaneOuts);
      const int group = at.first * kGroupsOfStep + unit;
      const int first = group * kPackedGroup + fragment_place() * kValueQuad;
#pragma unroll
      for (int half = 0; half < 2; half++) {
        load_value_codes(to.codes[half], matrix, out, [&](int i) { return int64_t{first + half * 16 + i}; });
      }
      load_value_factors(to.factors, matrix, group, out);
    }

    const Base& operands_;
    int out_;  // the lane's first of a tile
    Unit next_[kAhead];
  };
};

}  // namespace fulmar::gpu
