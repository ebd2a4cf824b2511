// Operands of the wgmma GEMM whose weight is packed transposed (layout/packed.h), a row of codes
// for each input: a lane holds eight neighbouring outputs of the inputs that it multiplies,
// pairs of four tiles of an RS product.
#pragma once

#include "gpu/gemm/layout/transposed_load.h"
#include "gpu/gemm/sm90/wgmma_q_operands.h"

namespace fulmar::gpu {

constexpr int kValueStepInputs = 64;

// A step's codes in a stage, for kOuts outputs: boxes of 128 bytes of each input's codes, swizzled over them,
// then lines of factors for each 32 inputs and one of supers.
template <int kOuts, CodeKind kKind>
struct LineBytes {
  static constexpr int kBoxLine = 128, kBox = kBoxLine * kValueStepInputs,
                       kBoxes = kOuts * bits_of(kKind) / 8 / kBoxLine;
  static constexpr int kGroups = kValueStepInputs / kPackedGroup;
  static constexpr int kHalfLine = kOuts * 2, kScaleLine = kOuts * 4;  // f16 factors, or f32 scales
  static constexpr int kFactorsAt = kBoxes * kBox, kSupersAt = kFactorsAt + kGroups * kScaleLine;
  static constexpr int kSupers = has_supers(kKind) ? kOuts * 4 : 0, kAll = kSupersAt + kSupers;
};

template <class Planned, CodeKind kKind>
struct PackedValueShape : PackedTileShape<Planned, LineBytes<Planned::kOuts, kKind>::kAll> {
  static constexpr bool kStriped = true;
  using Bytes = LineBytes<Planned::kOuts, kKind>;
};

template <class Shape, CodeKind kKind>
struct TransposedMaps {
  using Bytes = typename Shape::Bytes;
  static constexpr int kColumn = 8, kBoxColumns = 64;  // bytes of a byte_map's column; a box's, of 16 bits

  CUtensorMap codes, factors, supers;

  static __device__ __forceinline__ uint32_t bytes(const PackedMatrix& m) {
    const int line = has_factors<kKind>(m) ? Bytes::kHalfLine : Bytes::kScaleLine;
    return Bytes::kFactorsAt + Bytes::kGroups * line + Bytes::kSupers;
  }
  __device__ __forceinline__ void bring(const PackedMatrix& m, const Segment& at, int step,
                                        const Ring<Shape>& ring) const {
    const int input = step * kValueStepInputs;
    unsigned char* const to = ring.first();
    uint64_t* full = &ring.full[ring.place];
#pragma unroll
    for (int box = 0; box < Bytes::kBoxes; box++) {
      tma_load(to + box * Bytes::kBox, codes, at.first_out * bits_of(kKind) / 16 + box * kBoxColumns, input,
               full);
    }
    if (has_factors<kKind>(m)) {
      tma_load(to + Bytes::kFactorsAt, factors, at.first_out * 2 / kColumn, input / kPackedGroup, 0, full);
    } else {
#pragma unroll
      for (int group = 0; group < Bytes::kGroups; group++) {
        const int line = m.groups == 1 ? 0 : (input + group * kPackedGroup) >> m.group_shift;
        tma_load(to + Bytes::kFactorsAt + group * Bytes::kScaleLine, factors, at.first_out * 4 / kColumn,
                 line, 0, full);
      }
    }
    if constexpr (has_supers(kKind)) {
      tma_load(to + Bytes::kSupersAt, supers, at.first_out * 4 / kColumn, input / kPackedSuper, 0, full);
    }
  }

  void describe(const PackedMatrix& m) {
    const int64_t in = static_cast<int64_t>(m.pieces) * kPackedInputs, outs = m.outs;
    const int64_t columns = outs * bits_of(kKind) / 16;
    codes = tensor_map({const_cast<std::byte*>(m.codes), DType::f16, in, columns, columns}, kValueStepInputs);
    if (m.factors != nullptr) {
      factors = byte_map(m.factors, {outs * 2, in / kPackedGroup, 1}, {Bytes::kHalfLine, Bytes::kGroups, 1});
    } else {
      factors = byte_map(m.scales, {outs * 4, m.groups, 1}, {Bytes::kScaleLine, 1, 1});
    }
    if constexpr (has_supers(kKind)) {
      supers = byte_map(m.supers, {outs * 4, in / kPackedSuper, 1}, {Bytes::kSupers, 1, 1});
    }
  }
};

template <class Shape, CodeKind kKind>
struct PackedValueOperands : PackedTiles<Shape, kKind, TransposedMaps<Shape, kKind>> {
  using Base = PackedTiles<Shape, kKind, TransposedMaps<Shape, kKind>>;
  using Bytes = typename Shape::Bytes;

  // A consumer that reads codes, and widens operands, while the previous products are in flight.
  class Consumer {
   public:
    __device__ __forceinline__ Consumer(const Base& operands, int group)
        : operands_(operands),
          out_(group * StripedOutputs<Shape>::kGroupAll +
               static_cast<int>(threadIdx.x) % kGroupThreads / 4 * kLaneOuts) {}

    __device__ __forceinline__ void begin(const Segment&) {}

    __device__ __forceinline__ void multiply(const Segment& at, Ring<Shape>& ring, PanelSums<Shape>& sum) {
      const PackedMatrix& matrix = operands_.weight[at.product];
      uint64_t* previous = nullptr;  // the stage whose products may not have finished
      uint32_t left[2][Shape::kOutTiles][4];
      Codes codes;
      clear_sums<Shape>(sum);
      wait_until_full<Shape::kSlices>(ring);
      read_codes(codes, ring.first(), 0);
      for (int step = 0; step < at.steps; step++) {
        const uint64_t first = wgmma_matrix(ring.second(), 0);
        PackedFactor by[kLaneOuts];
#pragma unroll
        for (int product = 0; product < kProducts; product++) {
          if (product % 2 == 0) read_factors(by, ring.first(), product / 2, matrix);
          uint32_t(&own)[Shape::kOutTiles][4] = left[product % 2];
          wgmma_wait<1>();  // the products that read the operands here
          if (product == 1) leave_stage(previous);
          widen_value<Half>(codes, by, operands_.levels(), [&](int j, const uint32_t(&from)[4]) {
#pragma unroll
            for (int e = 0; e < 4; e++) own[j][e] = from[e];
          });
          pin_operands(own);
          wgmma_fence();
          const uint64_t in = packed_inputs<Shape::kRows>(first, product);
#pragma unroll
          for (int j = 0; j < Shape::kOutTiles; j++) {
            wgmma_registers<Shape::kRows>(sum[j], own[j], in, 1);
          }
          wgmma_commit();
          if (product + 1 < kProducts) read_codes(codes, ring.first(), product + 1);
        }
        previous = &ring.empty[ring.place];
        ring.next();
        if (step + 1 == at.steps) break;
        wait_until_full<Shape::kSlices>(ring);
        read_codes(codes, ring.first(), 0);
      }
      wgmma_wait<0>();
      leave_stage(previous);
      pin_sums<Shape>(sum);
    }

   private:
    static constexpr int kProducts = kValueStepInputs / 16, kLaneOuts = StripedOutputs<Shape>::kLaneOuts;
    using Codes = ValueCodes<kKind, kLaneOuts>;

    // Reads those of a product's 16 inputs that a fragment's lane has (fragment_input); swizzled as by TMA.
    __device__ __forceinline__ void read_codes(Codes& to, const unsigned char* stage, int product) const {
      const int at = out_ * bits_of(kKind) / 8;
      const unsigned char* box = stage + at / Bytes::kBoxLine * Bytes::kBox;
#pragma unroll
      for (int i = 0; i < kValueQuad; i++) {
        const int line = product * 16 + fragment_input(static_cast<int>(threadIdx.x), i);
        const int in_line = (at % Bytes::kBoxLine) ^ line % 8 * 16;
        copy_words<Codes::kBytes>(to.of[i], box + line * Bytes::kBoxLine + in_line);
      }
    }
    __device__ __forceinline__ void read_factors(PackedFactor (&by)[kLaneOuts], const unsigned char* stage,
                                                 int group, const PackedMatrix& matrix) const {
      const int at = has_factors<kKind>(matrix) ? group * Bytes::kHalfLine + out_ * 2
                                                : group * Bytes::kScaleLine + out_ * 4;
      ValueFactors<kKind, kLaneOuts> factors;
      copy_value_factors(factors, matrix, stage + Bytes::kFactorsAt + at,
                         stage + Bytes::kSupersAt + out_ * 4);
      value_factors_of(factors, matrix, by);
    }

    const Base& operands_;
    int out_;  // the lane's first one in the tile
  };
};

}  // namespace fulmar::gpu
