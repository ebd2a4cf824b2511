// Grouped products out[rows, outs] = in[rows, K] * weight[outs, K]^T by TMA and wgmma on compute
// capability 9.0. The work is one line of steps: of every tile of outputs and rows of every product, 64
// inputs at a time. A block takes a piece of that line (stream-K).
#pragma once

#include "gpu/device/element.h"
#include "gpu/device/ptx.h"
#include "gpu/products/epilogue.h"
#include "gpu/products/product.h"
#include "gpu/products/sm90/ring.h"

namespace fulmar::gpu {

constexpr int kGroupOuts = 64;  // of one instruction
constexpr int kChunkRows = 32;  // that go through shared memory together on their way out
constexpr int kChunkStride = kGroupOuts + 4;
constexpr int kVectorsAcross = kGroupOuts / 4,
              kVectorRows = kGroupThreads / kVectorsAcross;  // of four outputs
constexpr int kChunkVectors = kChunkRows / kVectorRows;      // per thread

// kOutTiles: of 64 outputs, for each group.
template <int kOutTilesEach, int kTileRows, int kStageCount>
struct PanelShape {
  static constexpr int kOutTiles = kOutTilesEach, kRows = kTileRows, kStages = kStageCount;
  static constexpr int kOuts = kGroups * kOutTiles * kGroupOuts, kChunks = kRows / kChunkRows,
                       kSubtiles = kOutTiles * kChunks;
  static constexpr size_t kFirstBytes = size_t{kOuts} * kRingStep * 2;  // the weights
  static constexpr size_t kStageBytes = kFirstBytes + size_t{kRows} * kRingStep * 2;
  static constexpr size_t kChunkBytes = size_t{kGroups} * kChunkRows * kChunkStride * sizeof(float);
  static constexpr size_t kBytes = kRingAlignment + kStages * kStageBytes + kChunkBytes;
  static constexpr int64_t kPartial = int64_t{kOuts} * kRows;  // numbers of an unfinished tile
};

struct PanelProduct {
  CUtensorMap weight, in, out;
  bool sends;                               // whether TMA can take results: only then is there `out`
  int outs, steps, first_step, first_tile;  // steps of a tile; first_*: on the line of all products
};

struct Panels {
  PanelProduct each[kMostProducts];
  int count, rows, row_tiles;
  int steps, tiles;   // of all products
  int steps_each;     // of a block, wherever tiles end; 0: whole tiles, block after block
  float* partial;     // [blocks, 2, Shape::kPartial]
  uint32_t* counter;  // [tiles], zero before and after
};

// A part of one tile: `steps` steps from `first` on.
struct Segment {
  int product, tile;                              // tile: on the line of all products
  int first_out, first_row, first, steps, begin;  // begin: the tile's first step on the line
};

// Goes through a block's segments.
template <class Shape>
class Walk {
 public:
  __device__ __forceinline__ explicit Walk(const Panels& panels) : panels_(panels) {
    const int block = static_cast<int>(blockIdx.x);
    at_ = block * max(panels.steps_each, 1);
    end_ = panels.steps_each > 0 ? min(at_ + panels.steps_each, panels.steps) : panels.tiles;
  }
  __device__ __forceinline__ bool next(Segment& to) {
    if (at_ >= end_) return false;
    const bool by_steps = panels_.steps_each > 0;
    int p = 0;
    while (p + 1 < panels_.count &&
           at_ >= (by_steps ? panels_.each[p + 1].first_step : panels_.each[p + 1].first_tile)) {
      p++;
    }
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

// Weights that fit into the ring are on their way before the kernels in front have finished.
template <class Shape>
__device__ __forceinline__ void bring_steps(const Panels& panels, Ring<Shape> ring) {
  const auto bring_weights = [&](const Segment& at, int step, const Ring<Shape>& to) {
    mbarrier_expect_bytes(&to.full[to.place], static_cast<uint32_t>(Shape::kStageBytes));
    tma_load(to.first(), panels.each[at.product].weight, (at.first + step) * kRingStep, at.first_out,
             &to.full[to.place]);
  };
  Segment at;
  Ring<Shape> early = ring;
  int brought = 0;
  for (Walk<Shape> walk(panels); brought < Shape::kStages && walk.next(at);) {
    for (int i = 0; i < at.steps && brought < Shape::kStages; i++, brought++, early.next())
      bring_weights(at, i, early);
  }
  pdl_wait();
  for (Walk<Shape> walk(panels); walk.next(at);) {
    for (int i = 0; i < at.steps; i++, brought--, ring.next()) {
      if (brought <= 0) {
        mbarrier_wait(&ring.empty[ring.place], ring.phase ^ 1);
        bring_weights(at, i, ring);
      }
      tma_load(ring.second(), panels.each[at.product].in, (at.first + i) * kRingStep, at.first_row,
               &ring.full[ring.place]);
    }
  }
}

template <class Shape>
using PanelSums = float[Shape::kOutTiles][Shape::kRows / 2];

template <class Shape, class T>
__device__ __forceinline__ void multiply_segment(const Segment& at, Ring<Shape>& ring, int group,
                                                 PanelSums<Shape>& sum) {
  const bool speaks = threadIdx.x % kWarp == 0;
  uint64_t* previous = nullptr;  // the stage whose products may not have finished
  for (int step = 0; step < at.steps; step++) {
    mbarrier_wait(&ring.full[ring.place], ring.phase);
    const unsigned char* weights =
        ring.first() + static_cast<size_t>(group) * Shape::kOutTiles * kGroupOuts * kRingStep * 2;
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kRingStep; k += 16) {
      const uint64_t in = wgmma_matrix(ring.second(), k);
#pragma unroll
      for (int m = 0; m < Shape::kOutTiles; m++) {
        wgmma<T, Shape::kRows>(sum[m], wgmma_matrix(weights + m * kGroupOuts * kRingStep * 2, k), in,
                               step > 0 || k > 0);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (previous != nullptr && speaks) mbarrier_arrive(previous);
    previous = &ring.empty[ring.place];
    ring.next();
  }
  wgmma_wait<0>();
  if (previous != nullptr && speaks) mbarrier_arrive(previous);
#pragma unroll
  for (int m = 0; m < Shape::kOutTiles; m++) {
#pragma unroll
    for (float& s : sum[m]) wgmma_pin(s);
  }
}

// Four neighbouring outputs, from `out` on, of the rows row, row + kVectorRows, ... of a tile.
struct SubtileVectors {
  int row, out;
  Float4 of[kChunkVectors];
};

// Which of a subtile's vectors are a thread's; each subtile is a chunk of rows of 64 outputs.
template <class Shape>
__device__ __forceinline__ SubtileVectors vectors_of(int subtile, int group) {
  const int thread = threadIdx.x % kGroupThreads;
  return {subtile % Shape::kChunks * kChunkRows + thread / kVectorsAcross,
          (group * Shape::kOutTiles + subtile / Shape::kChunks) * kGroupOuts + thread % kVectorsAcross * 4,
          {}};
}

// f(subtile, vectors) for all of a group's tile: the sums pass through shared memory, since a thread holds
// single outputs of many rows. One iteration of a loop for each chunk, and in it a choice among registers:
// unrolled, f would fill the instruction cache many times over.
template <class Shape, class F>
__device__ __forceinline__ void for_each_subtile(const PanelSums<Shape>& sum, int group, float* chunk,
                                                 F&& f) {
  const int thread = threadIdx.x % kGroupThreads, lane = thread % kWarp, g = lane / 4, q = lane % 4;
  float* own = chunk + 2 * q * kChunkStride + thread / kWarp * 16 + g;
#pragma unroll 1
  for (int subtile = 0; subtile < Shape::kSubtiles; subtile++) {
    named_barrier_sync(1 + group, kGroupThreads);
#pragma unroll
    for (int t = 0; t < Shape::kSubtiles; t++) {
      if (subtile != t) continue;
#pragma unroll
      for (int i = 0; i < kChunkRows / 2; i++) {
        own[(i / 4 * 8 + i % 2) * kChunkStride + i % 4 / 2 * 8] =
            sum[t / Shape::kChunks][t % Shape::kChunks * (kChunkRows / 2) + i];
      }
    }
    named_barrier_sync(1 + group, kGroupThreads);
    SubtileVectors v = vectors_of<Shape>(subtile, group);
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++) {
      v.of[i] = load4(&chunk[(v.row % kChunkRows + i * kVectorRows) * kChunkStride + v.out % kGroupOuts]);
    }
    f(subtile, v);
  }
}

// A group's whole tile: results leave by stmatrix and TMA in pieces of kChunkRows rows of 64 outputs, from
// two alternating places in the chunk. `piece_places`: 1024-byte aligned.
constexpr size_t kPieceBytes = size_t{kChunkRows} * kGroupOuts * 2;
static_assert(kGroups == 2 &&
                  kChunkRows * kChunkStride * sizeof(float) * 2 >= 4 * kPieceBytes + kRingAlignment,
              "both groups' chunks hold their places");
template <class T, Epilogue kEnd, class Shape>
__device__ __forceinline__ void send_tile(const CUtensorMap& out, const Segment& at,
                                          const PanelSums<Shape>& sum, int group,
                                          unsigned char* piece_places) {
  const int thread = threadIdx.x % kGroupThreads, lane = thread % kWarp, matrix = lane / 8;
  // Which of a half piece's rows, and which 16 bytes of it, this lane gives the address of.
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
