// A block's tile of out[rows, outs] = in[rows, K] * weight[outs, K]^T on matrix units. Both operands pass
// through shared memory in stages that are filled while earlier ones are multiplied, so that a weight is read
// once per tile of rows whatever their number.
#pragma once

#include "gpu/element.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

constexpr int kTileThreads = 256;

// kOutWarps x kRowWarps warps, each with kOutTilesEach * 16 outputs of 32 rows; kStages stages of kStepInputs
// inputs.
template <int kOutTilesEach, int kOutWarps, int kRowWarps, int kStepInputs, int kStageCount>
struct TileShape {
  static_assert(kOutWarps * kRowWarps * kWarp == kTileThreads);
  static constexpr int kOutTiles = kOutTilesEach, kRowTiles = 4;
  static constexpr int kOuts = kOutWarps * kOutTiles * 16, kRows = kRowWarps * kRowTiles * 8;
  static constexpr int kAcross = kOutWarps, kStep = kStepInputs, kStages = kStageCount;
  static constexpr size_t kStageBytes = size_t{kOuts + kRows} * kStep * 2;
  static constexpr int kProductStride = kOuts + 4;  // in floats; spreads the rows over the banks
  static constexpr size_t kBytes = kStages * kStageBytes;
  static_assert(kBytes >= size_t{kRows} * kProductStride * sizeof(float));
};
using NarrowTile = TileShape<1, 8, 1, 128, 5>;  // 128 outputs of 32 rows
using MiddleTile = TileShape<2, 4, 2, 128, 4>;  // 128 outputs of 64 rows

template <class T>
struct TileOperands {
  const T* weight;  // of the tile's first output; [outs, k]
  int outs;         // what there is of them, at least 1
  const T* in;      // of the tile's first row
  int64_t in_stride;
  int rows;          // likewise
  int k;             // between two weights
  int first, steps;  // the part of k that is multiplied: from `first` on, `steps` stages, zero beyond k
};

// Where 16-byte piece `piece` of a stage's row lies: four lanes that read neighbouring pieces and the four of
// the next row then meet in no bank.
template <class Shape>
__device__ __forceinline__ int tile_piece(int row, int piece) {
  return row * (Shape::kStep / 8) + (piece ^ (row & 1) * 4);
}

// Leaves product[row * Shape::kProductStride + out] in `shared` (Shape::kBytes), complete for all threads.
// Outputs and rows beyond what there is mean nothing. `in` is touched only after the kernels in front have
// finished.
template <class Shape, class T>
__device__ __forceinline__ void multiply_tile(const TileOperands<T>& a, unsigned char* shared) {
  constexpr int kPieces = Shape::kStep / 8;            // of a row
  constexpr int kRowsAtOnce = kTileThreads / kPieces;  // that all threads bring together
  constexpr int kOutTurns = Shape::kOuts / kRowsAtOnce, kRowTurns = Shape::kRows / kRowsAtOnce;
  const int piece = threadIdx.x % kPieces, row = threadIdx.x / kPieces;
  const T *weight[kOutTurns], *in[kRowTurns];
#pragma unroll
  for (int i = 0; i < kOutTurns; i++) {
    weight[i] = a.weight + static_cast<int64_t>(min(row + i * kRowsAtOnce, a.outs - 1)) * a.k + piece * 8;
  }
#pragma unroll
  for (int i = 0; i < kRowTurns; i++) {
    in[i] = a.in + static_cast<int64_t>(min(row + i * kRowsAtOnce, a.rows - 1)) * a.in_stride + piece * 8;
  }
  const auto stage = [&](int step) {
    return reinterpret_cast<uint4*>(shared + step % Shape::kStages * Shape::kStageBytes);
  };
  const auto bring = [&](uint4* to, const T* from, int at) {
    const bool inside = at + piece * 8 < a.k;
    __pipeline_memcpy_async(to, inside ? from + at : from, 16, inside ? 0 : 16);
  };
  const auto fetch_weights = [&](int step) {
    if (step >= a.steps) return;
#pragma unroll
    for (int i = 0; i < kOutTurns; i++) {
      bring(stage(step) + tile_piece<Shape>(row + i * kRowsAtOnce, piece), weight[i],
            a.first + step * Shape::kStep);
    }
  };
  const auto fetch_inputs = [&](int step) {
    if (step < a.steps) {
#pragma unroll
      for (int i = 0; i < kRowTurns; i++) {
        bring(stage(step) + tile_piece<Shape>(Shape::kOuts + row + i * kRowsAtOnce, piece), in[i],
              a.first + step * Shape::kStep);
      }
    }
    __pipeline_commit();  // also when there is nothing: waiting counts commits
  };
#pragma unroll
  for (int step = 0; step < Shape::kStages - 1; step++) fetch_weights(step);
  wait_for_previous();
#pragma unroll
  for (int step = 0; step < Shape::kStages - 1; step++) fetch_inputs(step);

  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4, warp = threadIdx.x / kWarp;
  const int first_out = warp % Shape::kAcross * Shape::kOutTiles * 16;
  const int first_row = warp / Shape::kAcross * Shape::kRowTiles * 8;
  float sum[Shape::kOutTiles][Shape::kRowTiles][4] = {};
  for (int step = 0; step < a.steps; step++) {
    __pipeline_wait_prior(Shape::kStages - 2);
    __syncthreads();
    fetch_weights(step + Shape::kStages - 1);  // into the place that all have just left
    fetch_inputs(step + Shape::kStages - 1);
    const uint4* from = stage(step);
    // Any order of the inputs will do if both operands agree on it: a lane's eight neighbours serve as the
    // positions that two instructions want from it.
#pragma unroll
    for (int half = 0; half < Shape::kStep / 32; half++) {
      uint4 low[Shape::kOutTiles], high[Shape::kOutTiles];
#pragma unroll
      for (int o = 0; o < Shape::kOutTiles; o++) {
        low[o] = from[tile_piece<Shape>(first_out + o * 16 + g, half * 4 + q)];
        high[o] = from[tile_piece<Shape>(first_out + o * 16 + g + 8, half * 4 + q)];
      }
#pragma unroll
      for (int t = 0; t < Shape::kRowTiles; t++) {
        const uint4 v = from[tile_piece<Shape>(Shape::kOuts + first_row + t * 8 + g, half * 4 + q)];
#pragma unroll
        for (int o = 0; o < Shape::kOutTiles; o++) {
          matrix_multiply_add<T>(sum[o][t], low[o].x, high[o].x, low[o].y, high[o].y, v.x, v.y);
          matrix_multiply_add<T>(sum[o][t], low[o].z, high[o].z, low[o].w, high[o].w, v.z, v.w);
        }
      }
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();  // the stages' place is taken over by the product
  auto* product = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int o = 0; o < Shape::kOutTiles; o++) {
#pragma unroll
    for (int t = 0; t < Shape::kRowTiles; t++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int to_row = first_row + t * 8 + 2 * q + i % 2, to_out = first_out + o * 16 + g + i / 2 * 8;
        product[to_row * Shape::kProductStride + to_out] = sum[o][t][i];
      }
    }
  }
  __syncthreads();
}

}  // namespace fulmar::gpu
