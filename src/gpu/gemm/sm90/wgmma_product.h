// Tiles of grouped products out[rows, outs] = in[rows, K] * weight[outs, K]^T by wgmma on compute capability
// 9.0, and the epilogue's path from accumulators to rows of outputs. The K steps of all tiles of all
// products are numbered consecutively; a block takes a range of them (stream-K), or a cluster a tile
// (split-K). Operands: wgmma_operands.h; of packed codes: wgmma_q_fragments.h,
// wgmma_q_transposed_operands.h.
#pragma once

#include <type_traits>

#include "gpu/device/element.h"
#include "gpu/device/ptx.h"
#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/grouped.h"
#include "gpu/gemm/sm90/ring.h"
#include "gpu/gemm/sm90/wgmma.h"

namespace fulmar::gpu {

constexpr int kGroupOuts = 64;  // of one instruction
constexpr int kChunkRows = 32;  // that pass through shared memory at a time on their way out
constexpr int kChunkStride = kGroupOuts + 4;
constexpr int kChunkVectors = kChunkRows * kGroupOuts / 4 / kGroupThreads;  // of four outputs, per thread

// The part common to all tile shapes. kGroupCount: warp groups that multiply; kOutTilesEach: 64-output
// tiles of each; kStepInputsEach: inputs of a K step; kWeightBytes: of a step's weights in the ring;
// kSliceCount: slices that divide a tile's steps (sliced-K); the groups of a slice have all of its outputs.
template <int kGroupCount, int kOutTilesEach, int kTileRows, int kStageCount, int kStepInputsEach,
          size_t kWeightBytes, int kSliceCount = 1>
struct PanelTileShape {
  static constexpr int kGroups = kGroupCount, kMultiplying = kGroups * kGroupThreads,
                       kThreads = kMultiplying + kGroupThreads;
  static constexpr int kSlices = kSliceCount, kOutGroups = kGroups / kSlices,
                       kFinishing = kOutGroups * kGroupThreads;  // threads that have the complete sums
  static_assert(kGroups % kSlices == 0);
  static constexpr int kOutTiles = kOutTilesEach, kRows = kTileRows, kStages = kStageCount;
  static constexpr int kStepInputs = kStepInputsEach;
  static constexpr int kOuts = kOutGroups * kOutTiles * kGroupOuts, kChunks = kRows / kChunkRows,
                       kSubtiles = kOutTiles * kChunks;
  static constexpr size_t kFirstBytes = kWeightBytes;
  static constexpr size_t kStageBytes = kFirstBytes + size_t{kRows} * kStepInputs * 2;
  static constexpr size_t kChunkBytes = size_t{kGroups} * kChunkRows * kChunkStride * sizeof(float);
  static constexpr size_t kBytes = kRingAlignment + kStages * kStageBytes + kChunkBytes;
  static constexpr int64_t kPartial = int64_t{kOuts} * kRows;  // floats of an unfinished tile
};

// The shape for weights of 16 bits, which pass through the ring.
template <int kOutTilesEach, int kTileRows, int kStageCount, int kGroupCount = gpu::kGroups>
struct PanelShape : PanelTileShape<kGroupCount, kOutTilesEach, kTileRows, kStageCount, kRingStep,
                                   size_t{kGroupCount} * kOutTilesEach * kGroupOuts * kRingStep * 2> {
  static constexpr bool kStriped = false;  // StripedOutputs
};

struct PanelProduct {
  CUtensorMap out;
  bool sends;                               // whether TMA can store results; only then is `out` set
  int outs, steps, first_step, first_tile;  // steps of a tile; first_*: numbered over all products
};

struct Panels : Grouped<PanelProduct> {
  int rows, row_tiles;
  int steps;       // of all products
  int steps_each;  // of a block, whatever the tiles (stream-K); 0: whole tiles, block after block
  int parts;       // of a tile (split-K), one a block of a cluster; 1: no clusters
  LaunchPlace place;
  float* partial;     // [blocks, 2, Shape::kPartial]
  uint32_t* counter;  // [tiles], zero before and after
};

// A part of one tile: `steps` K steps from `first` on.
struct Segment {
  int product, tile;                              // tile: numbered over all products
  int first_out, first_row, first, steps, begin;  // begin: number of the tile's first step
};

// Iterates over a block's segments.
template <class Shape>
class Walk {
 public:
  __device__ __forceinline__ explicit Walk(const Panels& panels) : panels_(panels) {
    const int block = static_cast<int>(blockIdx.x);
    if (panels.parts > 1) {  // all products have equally many steps
      const int steps = panels.each[0].steps, begin = block / panels.parts * steps;
      at_ = begin + block % panels.parts * panels.steps_each;
      end_ = min(at_ + panels.steps_each, begin + steps);
      return;
    }
    at_ = block * max(panels.steps_each, 1);
    end_ = panels.steps_each > 0 ? min(at_ + panels.steps_each, panels.steps) : panels.tiles;
  }
  __device__ __forceinline__ bool next(Segment& to) {
    if (at_ >= end_) return false;
    const bool by_steps = panels_.steps_each > 0;
    int p = 0;
    if (!by_steps) p = panels_.index_at(at_);
    while (by_steps && p + 1 < panels_.count && at_ >= panels_.each[p + 1].first_step) p++;
    const PanelProduct& product = panels_.each[p];
    const int tile = by_steps ? (at_ - product.first_step) / product.steps : at_ - product.first_tile;
    to.product = p;
    to.tile = product.first_tile + tile;
    to.first_out = tile / panels_.row_tiles * Shape::kOuts;
    to.first_row = tile % panels_.row_tiles * Shape::kRows;
    to.begin = product.first_step + tile * product.steps;
    to.first = by_steps ? at_ - to.begin : 0;
    to.steps = by_steps ? min(to.begin + product.steps, end_) - at_ : product.steps;
    at_ += by_steps ? to.steps : static_cast<int>(gridDim.x);
    return true;
  }

 private:
  const Panels& panels_;
  int at_, end_;  // steps or tiles
};

template <class Shape>
using PanelSums = float[Shape::kOutTiles][Shape::kRows / 2];
template <class Shape>
__device__ __forceinline__ void pin_sums(PanelSums<Shape>& sum) {
#pragma unroll
  for (auto& tile : sum) {
#pragma unroll
    for (float& s : tile) wgmma_pin(s);
  }
}

template <class Shape>
__device__ __forceinline__ void clear_sums(PanelSums<Shape>& sum) {
#pragma unroll
  for (auto& tile : sum) {
#pragma unroll
    for (float& s : tile) s = 0;
  }
}

// Four neighbouring outputs, from `out` on, of the rows row, row + row_step, ... of a tile.
struct SubtileVectors {
  int row, out, row_step;
  Float4 of[kChunkVectors];
};

// The layout of a group's accumulators, and their path through shared memory, needed because a thread holds
// single outputs of many rows. A subtile goes through at a time, kSubtileSums of each thread's sums.
constexpr int kSubtileSums = kChunkRows / 2;
using SubtileSums = float[kSubtileSums];

// Tiles of 64 outputs one after the other: a subtile is a chunk of a tile's rows.
template <class Shape>
struct PlainOutputs {
  static constexpr int kAcross = kGroupOuts / 4, kRowStep = kGroupThreads / kAcross;
  static __device__ __forceinline__ SubtileVectors vectors(int subtile, int group) {
    const int thread = threadIdx.x % kGroupThreads;
    return {subtile % Shape::kChunks * kChunkRows + thread / kAcross,
            (group * Shape::kOutTiles + subtile / Shape::kChunks) * kGroupOuts + thread % kAcross * 4,
            kRowStep,
            {}};
  }
  static __device__ __forceinline__ void pick(const PanelSums<Shape>& sum, int subtile, SubtileSums& to) {
#pragma unroll
    for (int i = 0; i < kSubtileSums; i++) {
      to[i] = sum[subtile / Shape::kChunks][subtile % Shape::kChunks * kSubtileSums + i];
    }
  }
  static __device__ __forceinline__ void put(const SubtileSums& sum, float* chunk) {
    const int thread = threadIdx.x % kGroupThreads, lane = thread % kWarp, g = lane / 4, q = lane % 4;
    float* own = chunk + 2 * q * kChunkStride + thread / kWarp * 16 + g;
#pragma unroll
    for (int i = 0; i < kSubtileSums; i++) {
      own[(i / 4 * 8 + i % 2) * kChunkStride + i % 4 / 2 * 8] = sum[i];
    }
  }
  static __device__ __forceinline__ Float4 get(const SubtileVectors& v, int i, const float* chunk) {
    return load4(&chunk[(v.row % kChunkRows + i * kRowStep) * kChunkStride + v.out % kGroupOuts]);
  }
};

// Outputs striped over tiles: rows g and g + 8 of tile m are a lane's neighbouring outputs 2m and 2m + 1. A
// subtile is some rows of all tiles.
template <class Shape>
struct StripedOutputs {
  static constexpr int kLaneOuts = 2 * Shape::kOutTiles, kRowsAtOnce = kChunkRows / Shape::kOutTiles,
                       kGroupAll = kGroupThreads / 4 * kLaneOuts;
  static constexpr int kAcross = kGroupAll / 4, kRowStep = kGroupThreads / kAcross, kStride = kGroupAll + 4;
  static_assert(kRowsAtOnce * kStride <= kChunkRows * kChunkStride);
  static __device__ __forceinline__ SubtileVectors vectors(int subtile, int group) {
    const int thread = threadIdx.x % kGroupThreads;
    return {subtile * kRowsAtOnce + thread / kAcross, group * kGroupAll + thread % kAcross * 4, kRowStep, {}};
  }
  static constexpr int kTileSums = kRowsAtOnce / 2;  // of a subtile, of a tile
  static __device__ __forceinline__ void pick(const PanelSums<Shape>& sum, int subtile, SubtileSums& to) {
#pragma unroll
    for (int i = 0; i < kSubtileSums; i++) to[i] = sum[i / kTileSums][subtile * kTileSums + i % kTileSums];
  }
  static __device__ __forceinline__ void put(const SubtileSums& sum, float* chunk) {
    const int thread = threadIdx.x % kGroupThreads, lane = thread % kWarp, g = lane / 4, q = lane % 4;
    float* own = chunk + 2 * q * kStride + thread / kWarp * (kGroupAll / 4) + g * kLaneOuts;
#pragma unroll
    for (int row = 0; row < kRowsAtOnce / 4; row++) {
#pragma unroll
      for (int m = 0; m < Shape::kOutTiles; m += 2) {
        const float* tile = sum + m * kTileSums + row / 2 * 4 + row % 2;
        store4(own + (row / 2 * 8 + row % 2) * kStride + 2 * m,
               Float4{{tile[0], tile[2], tile[kTileSums], tile[kTileSums + 2]}});
      }
    }
  }
  static __device__ __forceinline__ Float4 get(const SubtileVectors& v, int i, const float* chunk) {
    return load4(&chunk[(v.row % kRowsAtOnce + i * kRowStep) * kStride + v.out % kGroupAll]);
  }
};

template <class Shape>
using OutputsOf = std::conditional_t<Shape::kStriped, StripedOutputs<Shape>, PlainOutputs<Shape>>;

// Returns a subtile's vectors; all threads of a group must have put their sums into the chunk.
template <class Shape>
__device__ __forceinline__ SubtileVectors get_subtile(int subtile, int group, const float* chunk) {
  using Outputs = OutputsOf<Shape>;
  named_barrier_sync(1 + group, kGroupThreads);
  SubtileVectors v = Outputs::vectors(subtile, group);
#pragma unroll
  for (int i = 0; i < kChunkVectors; i++) v.of[i] = Outputs::get(v, i, chunk);
  return v;
}

// Calls f(subtile, vectors) for all subtiles of a group's tile: a loop, with a selection among registers
// inside, since unrolled copies of f would overflow the instruction cache.
template <class Shape, class F>
__device__ __forceinline__ void for_each_subtile(const PanelSums<Shape>& sum, int group, float* chunk,
                                                 F&& f) {
#pragma unroll 1
  for (int subtile = 0; subtile < Shape::kSubtiles; subtile++) {
    named_barrier_sync(1 + group, kGroupThreads);
#pragma unroll
    for (int t = 0; t < Shape::kSubtiles; t++) {
      if (subtile != t) continue;
      SubtileSums own;
      OutputsOf<Shape>::pick(sum, t, own);
      OutputsOf<Shape>::put(own, chunk);
    }
    f(subtile, get_subtile<Shape>(subtile, group, chunk));
  }
}

// Stores a group's whole tile by stmatrix and TMA, in pieces of kChunkRows rows of 64 outputs, from two
// alternating places in the chunk. `piece_places`: 1024-byte aligned.
constexpr size_t kPieceBytes = size_t{kChunkRows} * kGroupOuts * 2;
static_assert(kChunkRows * kChunkStride * sizeof(float) == 2 * kPieceBytes + kRingAlignment / 2,
              "every second group's chunk is aligned, and the others hold their places behind half of it");
template <class T, Epilogue kEnd, class Shape>
__device__ __forceinline__ void send_tile(const CUtensorMap& out, const Segment& at,
                                          const PanelSums<Shape>& sum, int group,
                                          unsigned char* piece_places) {
  const int thread = threadIdx.x % kGroupThreads, lane = thread % kWarp, matrix = lane / 8;
  // The row of half a piece, and the 16 bytes of it, whose address this lane gives.
  const int row = matrix / 2 * 8 + lane % 8, across = (thread / kWarp * 2 + matrix % 2) ^ lane % 8;
#pragma unroll
  for (int subtile = 0; subtile < Shape::kSubtiles; subtile++) {
    unsigned char* place = piece_places + subtile % 2 * kPieceBytes;
    const int m = subtile / Shape::kChunks, chunk = subtile % Shape::kChunks;
    if (thread == 0) bulk_wait_read<1>();
    named_barrier_sync(1 + group, kGroupThreads);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t packed[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int from = (chunk * 2 + half) * 8 + i * 2;
        packed[i] = pack_floats<T>(finish(kEnd, sum[m][from]), finish(kEnd, sum[m][from + 1]));
      }
      stmatrix_transposed(place + (half * 16 + row) * kGroupOuts * 2 + across * 16, packed);
    }
    fence_async_proxy();
    named_barrier_sync(1 + group, kGroupThreads);
    if (thread == 0) {
      tma_store(out, at.first_out + (group * Shape::kOutTiles + m) * kGroupOuts,
                at.first_row + chunk * kChunkRows, place);
    }
  }
}

}  // namespace fulmar::gpu
