// Operands of the wgmma GEMM whose weights are packed codes (layout/packed.h): TMA loads
// codes, scales and inputs into the ring in memory order, and a consumer widens codes in
// registers to the left operand of an RS product.
#pragma once

#include "base/check.h"
#include "gpu/gemm/layout/packed_load.h"
#include "gpu/gemm/sm90/wgmma_operands.h"

namespace fulmar::gpu {

// Shared memory of a block without its barriers and tables; a ring has as many stages as fit in it.
constexpr size_t kPackedShared = size_t{224} << 10;
constexpr int kMostPackedStages = 8;
constexpr size_t whole_alignments(size_t bytes) {
  return (bytes + kRingAlignment - 1) / kRingAlignment * kRingAlignment;
}
// The part of a tile's shape that a plan uses; stages depend on the codes.
template <int kGroupCount, int kOutTilesEach, int kTileRows, int kStepInputsEach, int kSlices = 1>
using PlannedShape = PanelTileShape<kGroupCount, kOutTilesEach, kTileRows, 1, kStepInputsEach, 0, kSlices>;

template <class Planned>
constexpr int packed_stages(size_t code_bytes) {
  const size_t stage = whole_alignments(code_bytes) + size_t{Planned::kRows} * Planned::kStepInputs * 2;
  const size_t stages = (kPackedShared - kRingAlignment - Planned::kChunkBytes) / stage;
  return stages < kMostPackedStages ? static_cast<int>(stages) : kMostPackedStages;
}

// The complete shape, from the bytes of a stage's codes.
template <class Planned, size_t kCodeBytes>
using PackedTileShape =
    PanelTileShape<Planned::kGroups, Planned::kOutTiles, Planned::kRows, packed_stages<Planned>(kCodeBytes),
                   Planned::kStepInputs, whole_alignments(kCodeBytes), Planned::kSlices>;

// Returns a consumer's registers: those of the block at its start less the producer's.
// setmaxnreg hangs if asked for more.
constexpr int packed_multiply_registers(int groups) {
  const int at_start = 65536 / ((groups + 1) * kGroupThreads) / 8 * 8;
  return (at_start * (groups + 1) - kBringRegisters) / groups / 8 * 8;
}

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

// A stage's inputs are matrices of 64 inputs (wgmma_matrix), each of four right operands.
constexpr int kInputMatrix = 64;
template <int kRows>
__device__ __forceinline__ uint64_t packed_inputs(uint64_t first, int product) {
  return wgmma_advance(first,
                       static_cast<uint32_t>(product / 4 * (kRows * kInputMatrix * 2) + product % 4 * 32));
}

// The part common to both orders of codes. CodeMaps: the matrix's tensor maps; bring(segment, step, ring)
// loads a stage's part of it, bytes() returns the bytes of that.
template <class Shape, CodeKind kKind, class CodeMaps>
struct PackedTiles {
  static constexpr int kBringRegisters = gpu::kBringRegisters,
                       kMultiplyRegisters = packed_multiply_registers(Shape::kGroups);
  static constexpr uint32_t kFilling = 1;  // arrivals that fill a stage

  PackedMatrix weight[kMostGemms];
  CodeMaps codes[kMostGemms];
  CUtensorMap in[kMostGemms];

  static __device__ __forceinline__ uint32_t (&levels())[kLevelPairs] {
    __shared__ uint32_t table[kLevelPairs];
    return table;
  }
  __device__ __forceinline__ void prepare() const {
    if constexpr (kKind == CodeKind::levels) fill_level_pairs(levels(), weight[0].nf4);
  }
  __device__ __forceinline__ void bring(const Panels& panels, const Ring<Shape>& ring) const {
    bring_operands<Shape>(
        panels, ring,
        [&](const Segment& at, int step, const Ring<Shape>& to) {
          constexpr uint32_t kInputBytes = Shape::kRows * Shape::kStepInputs * 2;
          const PackedMatrix& matrix = weight[at.product];
          mbarrier_expect_bytes(&to.full[to.place], CodeMaps::bytes(matrix) + kInputBytes);
          codes[at.product].bring(matrix, at, step, to);
        },
        [&](const Segment& at, int step, const Ring<Shape>& to) {
#pragma unroll
          for (int i = 0; i < Shape::kStepInputs / kInputMatrix; i++) {
            tma_load(to.second() + i * (Shape::kRows * kInputMatrix * 2), in[at.product],
                     step * Shape::kStepInputs + i * kInputMatrix, at.first_row, &to.full[to.place]);
          }
        });
  }
};

// Returns the `Operands` of packed codes for these products.
template <class Operands, class Shape>
Operands packed_operands_of(GemmList list) {
  Operands operands{};
  int i = 0;
  for (const Gemm& one : list) {
    FULMAR_CHECK(one.weight.dtype == list.front().weight.dtype && one.in.dtype == DType::f16);
    operands.weight[i] = packed_matrix_of(one.weight);
    operands.codes[i].describe(operands.weight[i]);
    operands.in[i++] = tensor_map(one.in, Shape::kRows);
  }
  return operands;
}

}  // namespace fulmar::gpu
