// Operands of the wgmma GEMM whose weights are packed as fragments (layout/packed.h): a warp has 16 of its
// group's 64 outputs, and a stage has a piece (K tile) of each of the block's tiles of 16.
#pragma once

#include "gpu/gemm/sm90/wgmma_q_operands.h"

namespace fulmar::gpu {

// Bytes of a tile's piece, and offsets of its parts in a stage of kTiles such pieces.
template <int kTiles, CodeKind kKind>
struct PieceBytes {
  static constexpr uint32_t kCodes = kPackedOuts * kPackedInputs * bits_of(kKind) / 8;
  static constexpr uint32_t kFactors = kPackedOuts * kPieceGroups * 2,
                            kSupers = has_supers(kKind) ? kPackedOuts * 4 : 0;
  static constexpr uint32_t kUpper = kKind == CodeKind::six ? kPackedOuts * kPackedInputs / 4 : 0;
  static constexpr uint32_t kFactorsAt = kTiles * kCodes, kSupersAt = kFactorsAt + kTiles * kFactors,
                            kUpperAt = kSupersAt + kTiles * kSupers, kAll = kUpperAt + kTiles * kUpper;
};

template <class Planned, CodeKind kKind>
struct PackedShape : PackedTileShape<Planned, PieceBytes<Planned::kOuts / kPackedOuts, kKind>::kAll> {
  static constexpr bool kStriped = false;
  using Bytes = PieceBytes<Planned::kOuts / kPackedOuts, kKind>;
};

template <class Shape, CodeKind kKind>
struct FragmentMaps {
  using Bytes = typename Shape::Bytes;
  static constexpr bool kSupers = has_supers(kKind), kUpper = kKind == CodeKind::six;
  static constexpr int kTiles = Shape::kOuts / kPackedOuts;

  CUtensorMap codes, factors;
  CUtensorMap supers, upper;

  static __device__ __forceinline__ uint32_t bytes(const PackedMatrix& m) {
    return Bytes::kAll - (has_factors<kKind>(m) ? 0 : kTiles * Bytes::kFactors);
  }
  __device__ __forceinline__ void bring(const PackedMatrix& m, const Segment& at, int step,
                                        const Ring<Shape>& ring) const {
    const int tile = at.first_out / kPackedOuts;
    uint64_t* full = &ring.full[ring.place];
    tma_load(ring.first(), codes, 0, step, tile, full);
    if (has_factors<kKind>(m)) tma_load(ring.first() + Bytes::kFactorsAt, factors, 0, step, tile, full);
    if constexpr (kSupers) tma_load(ring.first() + Bytes::kSupersAt, supers, 0, step / 2, tile, full);
    if constexpr (kUpper) tma_load(ring.first() + Bytes::kUpperAt, upper, 0, step, tile, full);
  }

  void describe(const PackedMatrix& m) {
    const int64_t tiles = (m.outs + kPackedOuts - 1) / kPackedOuts;
    const auto map = [&](const void* data, int64_t bytes, int64_t pieces) {
      return byte_map(data, {bytes, pieces, tiles}, {bytes, 1, kTiles});
    };
    codes = map(m.codes, Bytes::kCodes, m.pieces);
    if (m.factors != nullptr) factors = map(m.factors, Bytes::kFactors, m.pieces);
    if constexpr (kSupers) supers = map(m.supers, Bytes::kSupers, m.pieces / 2);
    if constexpr (kUpper) upper = map(m.upper, Bytes::kUpper, m.pieces);
  }
};

template <class Shape, CodeKind kKind, ScaleLayout kScales>
struct PackedOperands : PackedTiles<Shape, kKind, FragmentMaps<Shape, kKind>> {
  using Base = PackedTiles<Shape, kKind, FragmentMaps<Shape, kKind>>;
  using Bytes = typename Shape::Bytes;

  // A consumer that widens operands, and reads the next piece, while the previous products are in flight.
  class Consumer {
   public:
    __device__ __forceinline__ Consumer(const Base& operands, int group)
        : operands_(operands),
          slice_(group / Shape::kOutGroups),
          tile_(group % Shape::kOutGroups * Shape::kOutTiles * 4 +
                static_cast<int>(threadIdx.x) % kGroupThreads / kWarp) {}

    __device__ __forceinline__ void begin(const Segment& at) {
#pragma unroll
      for (int m = 0; m < Shape::kOutTiles; m++) fetch_scales(at, slice_.first(), m);
    }

    __device__ __forceinline__ void multiply(const Segment& at, Ring<Shape>& ring, PanelSums<Shape>& sum) {
      const PackedMatrix& matrix = operands_.weight[at.product];
      uint64_t* previous = nullptr;  // the stage whose products may not have finished
      uint32_t left[2][2][4];
      PackedPiece<kKind> piece;
      clear_sums<Shape>(sum);  // a first product without adding would need a register as its predicate
      if (!slice_.enter(at.steps, ring)) return;
      const int begin = slice_.first();
      wait_until_full<Shape::kSlices>(ring);
      read_piece(piece, ring.first(), at, begin, 0);
      for (int step = begin;;) {
        const uint64_t in = wgmma_matrix(ring.second(), 0);
#pragma unroll
        for (int m = 0; m < Shape::kOutTiles; m++) {
          const auto multiply_group = [&](int j, const uint32_t(&first)[4], const uint32_t(&second)[4]) {
            uint32_t(&own)[2][4] = left[j % 2];
            wgmma_wait<1>();  // the products that read the operands here
            if (m == 0 && j == 1) leave_stage(previous);
#pragma unroll
            for (int e = 0; e < 4; e++) own[0][e] = first[e], own[1][e] = second[e];
            pin_operands(own);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < 2; i++) {
              const int product = 2 * j + i;
              wgmma_registers<Shape::kRows>(sum[m], own[i], packed_inputs<Shape::kRows>(in, product), 1);
            }
            wgmma_commit();
          };
          widen_piece<Half, kScales, !kScalesSums>(piece, matrix.layout, operands_.levels(), multiply_group);
          if (m + 1 < Shape::kOutTiles) read_piece(piece, ring.first(), at, step, m + 1);
        }
        previous = &ring.empty[ring.place];
        if (!slice_.next(step, at.steps, ring)) break;
        wait_until_full<Shape::kSlices>(ring);
        read_piece(piece, ring.first(), at, step, 0);
      }
      wgmma_wait<0>();
      leave_stage(previous);
      pin_sums<Shape>(sum);
      if constexpr (kScalesSums) scale_sums(sum);
    }

   private:
    // Codes enter the sums without the row's scale, which is applied to the sums.
    static constexpr bool kScalesSums = kScales == ScaleLayout::row;
    __device__ __forceinline__ void scale_sums(PanelSums<Shape>& sum) const {
#pragma unroll
      for (int m = 0; m < Shape::kOutTiles; m++) {
#pragma unroll
        for (int i = 0; i < Shape::kRows / 2; i++) {
          sum[m][i] *= sum_scale<kKind>(scale_[m][i / 2 % 2].x);
        }
      }
    }

    // Reads the piece of the m-th of the group's tiles of 64 outputs.
    __device__ __forceinline__ void read_piece(PackedPiece<kKind>& to, const unsigned char* stage,
                                               const Segment& at, int step, int m) {
      const PackedMatrix& matrix = operands_.weight[at.product];
      const int tile = tile_ + m * 4;
      constexpr int kVectors = PackedPiece<kKind>::kVectors;
      const int lane = threadIdx.x % kWarp, g = lane / 4;
      const auto* codes = reinterpret_cast<const uint4*>(stage + tile * Bytes::kCodes) + lane;
#pragma unroll
      for (int v = 0; v < kVectors; v++) {
        to.low[v] = codes[v * kWarp];
        to.high[v] = codes[(kVectors + v) * kWarp];
      }
      if constexpr (kKind == CodeKind::six) {
        const auto* upper =
            reinterpret_cast<const uint2*>(stage + Bytes::kUpperAt + tile * Bytes::kUpper) + lane;
        to.upper[0] = upper[0], to.upper[1] = upper[kWarp];
      }
      if (has_factors<kKind, kScales>(matrix)) {
        to.scales[0] = reinterpret_cast<const uint4*>(stage + Bytes::kFactorsAt + tile * Bytes::kFactors)[g];
        if constexpr (has_supers(kKind)) {
          const auto* super =
              reinterpret_cast<const uint32_t*>(stage + Bytes::kSupersAt + tile * Bytes::kSupers) + g;
          to.super[0] = super[0], to.super[1] = super[8];
        }
      } else if constexpr (kScales != ScaleLayout::factors) {
        to.scales[0] = scale_[m][0], to.scales[1] = scale_[m][1];
        if (!kScalesSums) fetch_scales(at, step + Shape::kSlices, m);
      }
    }
    // Loads a step's f32 scales, past the ring, since matrices have few of them. Beyond the last step it
    // repeats the last: a branch between wgmmas would make the compiler wait for each of them.
    __device__ __forceinline__ void fetch_scales(const Segment& at, int step, int m) {
      if constexpr (kScales != ScaleLayout::factors) {
        const PackedMatrix& matrix = operands_.weight[at.product];
        const int row = at.first_out + (tile_ + m * 4) * kPackedOuts + fragment_group();
#pragma unroll
        for (int i = 0; i < 2; i++) {
          load_scales(scale_[m][i], scales_of_row(matrix, row + 8 * i), at.first + min(step, at.steps - 1),
                      kScales, matrix.group_shift);
        }
      }
    }

    const Base& operands_;
    SliceSteps<Shape::kSlices> slice_;
    int tile_;  // of 16 outputs, of the block's
    uint4 scale_[Shape::kOutTiles][2] = {};
  };
};

}  // namespace fulmar::gpu
