// A block's tile of out[rows, outs] = in[rows, K] * weight[outs, K]^T on matrix units (mma). Weights come
// straight from memory into fragments, several pieces on their way per warp; the rows, which all warps share,
// pass through shared memory by a multistage cp.async pipeline, swizzled against bank conflicts. Two blocks
// run on a multiprocessor at a time.
#pragma once

#include <algorithm>

#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/device/ptx.h"

namespace fulmar::gpu {

constexpr int kTileThreads = 256;
constexpr int kTilePiece = 64;  // inputs that a warp multiplies at a time
constexpr int kWarpPieces = 2, kWarpInputs = kWarpPieces * kTilePiece;  // of a warp in a stage
constexpr int kTileAhead = 4;                                           // pieces of weights on their way

// kOutWarps x kKWarps warps, each with 16 outputs of all rows; those that share outputs divide a stage's
// inputs among them.
template <int kRowTilesEach, int kOutWarpsEach, int kKWarpsEach, int kStageCount>
struct TileShape {
  static constexpr int kRowTiles = kRowTilesEach, kOutWarps = kOutWarpsEach, kKWarps = kKWarpsEach;
  static constexpr int kOuts = kOutWarps * 16, kRows = kRowTiles * 8;
  static constexpr int kStep = kKWarps * kWarpInputs, kStages = kStageCount;  // inputs of a stage; stages
  static constexpr size_t kStageBytes = size_t{kRows} * kStep * 2;
  static constexpr int kProductStride = kOuts + 4;  // in floats; spreads the rows over the banks
  static constexpr size_t kProductBytes = size_t{kKWarps} * kRows * kProductStride * sizeof(float);
  static constexpr size_t kBytes = std::max(kStages * kStageBytes, kProductBytes);
  static_assert(kOutWarps * kKWarps * kWarp == kTileThreads);
  static_assert(kBytes <= size_t{48} << 10, "two blocks want room in the 100 KB of compute capability 8.6");
};
using Tile16 = TileShape<2, 4, 2, 4>;  // 64 outputs of 16 rows
using Tile32 = TileShape<4, 4, 2, 3>;  // 64 outputs of 32 rows
using Tile64 = TileShape<8, 8, 1, 3>;  // 128 outputs of 64 rows: fewer would read the rows too often

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

// Where 16-byte piece `piece` of a stage's row lies (swizzle): four lanes that read neighbouring pieces and
// the four of the next row then meet in no bank.
template <class Shape>
__device__ __forceinline__ int tile_piece(int row, int piece) {
  return row * (Shape::kStep / 8) + (piece ^ (row & 1) * 4);
}

// Leaves the sums in `shared` (Shape::kBytes), complete for all threads, where tile_sum finds them. Outputs
// and rows beyond what there is mean nothing. `in` is touched only after the kernels in front have finished.
template <class Shape, class T>
__device__ __forceinline__ void multiply_tile(const TileOperands<T>& a, unsigned char* shared) {
  const int g = fragment_group(), q = fragment_place(), warp = threadIdx.x / kWarp;
  const int first_out = warp % Shape::kOutWarps * 16, k_warp = warp / Shape::kOutWarps;
  const int first_in = a.first + k_warp * kWarpInputs + q * 8;
  const T* low = a.weight + static_cast<int64_t>(min(first_out + g, a.outs - 1)) * a.k + first_in;
  const T* high = a.weight + static_cast<int64_t>(min(first_out + g + 8, a.outs - 1)) * a.k + first_in;
  const int inputs = a.k - first_in;  // from the lane's first one to the end of its rows
  const int pieces = kWarpPieces * a.steps;
  uint4 w[kTileAhead][4];  // (low row, high row) x (first, second half of the piece)
  const auto fetch_weights = [&](uint4(&to)[4], int piece) {
    if (piece >= pieces) return;
    const int at = piece / kWarpPieces * Shape::kStep + piece % kWarpPieces * kTilePiece;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const bool inside = at + half * 32 < inputs;
      to[half] = inside ? __ldcs(reinterpret_cast<const uint4*>(low + at + half * 32)) : uint4{};
      to[2 + half] = inside ? __ldcs(reinterpret_cast<const uint4*>(high + at + half * 32)) : uint4{};
    }
  };

  constexpr int kPieces = Shape::kStep / 8;            // of 16 bytes, of a stage's row
  constexpr int kRowsAtOnce = kTileThreads / kPieces;  // that all threads bring together
  constexpr int kCopies = Shape::kRows / kRowsAtOnce;
  static_assert(kCopies * kRowsAtOnce == Shape::kRows);
  const int own_piece = threadIdx.x % kPieces, own_row = threadIdx.x / kPieces;
  const T* in[kCopies];
#pragma unroll
  for (int i = 0; i < kCopies; i++) {
    in[i] =
        a.in + static_cast<int64_t>(min(own_row + i * kRowsAtOnce, a.rows - 1)) * a.in_stride + own_piece * 8;
  }
  const auto stage = [&](int step) {
    return reinterpret_cast<uint4*>(shared + step % Shape::kStages * Shape::kStageBytes);
  };
  const auto fetch_inputs = [&](int step) {
    if (step < a.steps) {
      const int at = a.first + step * Shape::kStep;
      const bool inside = at + own_piece * 8 < a.k;
#pragma unroll
      for (int i = 0; i < kCopies; i++) {
        __pipeline_memcpy_async(stage(step) + tile_piece<Shape>(own_row + i * kRowsAtOnce, own_piece),
                                inside ? in[i] + at : in[i], 16, inside ? 0 : 16);
      }
    }
    __pipeline_commit();  // also when there is nothing: waiting counts commits
  };

#pragma unroll
  for (int i = 0; i < kTileAhead; i++) fetch_weights(w[i], i);
  pdl_wait();
#pragma unroll
  for (int step = 0; step < Shape::kStages - 1; step++) fetch_inputs(step);

  float sum[Shape::kRowTiles][4] = {};
  constexpr int kSteps = kTileAhead / kWarpPieces;  // that use each place of the pieces on their way once
  for (int base = 0; base < a.steps; base += kSteps) {
#pragma unroll
    for (int ahead = 0; ahead < kSteps; ahead++) {
      const int step = base + ahead;
      if (step >= a.steps) break;
      __pipeline_wait_prior(Shape::kStages - 2);
      __syncthreads();
      fetch_inputs(step + Shape::kStages - 1);  // into the stage that all have just left
      const uint4* from = stage(step);
#pragma unroll
      for (int p = 0; p < kWarpPieces; p++) {
        uint4(&v)[4] = w[ahead * kWarpPieces + p];
        // Any order of the inputs will do if both operands agree on it: a lane's eight neighbours serve as
        // the positions that two instructions want from it.
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
          for (int t = 0; t < Shape::kRowTiles; t++) {
            const uint4 x = from[tile_piece<Shape>(t * 8 + g, (k_warp * kWarpPieces + p) * 8 + half * 4 + q)];
            mma<T>(sum[t], v[half].x, v[2 + half].x, v[half].y, v[2 + half].y, x.x, x.y);
            mma<T>(sum[t], v[half].z, v[2 + half].z, v[half].w, v[2 + half].w, x.z, x.w);
          }
        }
        fetch_weights(v, step * kWarpPieces + p + kTileAhead);
      }
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();  // the stages' place is taken over by the product
  auto* product = reinterpret_cast<float*>(shared) + k_warp * Shape::kRows * Shape::kProductStride;
#pragma unroll
  for (int t = 0; t < Shape::kRowTiles; t++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = t * 8 + Accumulator::column(q, i), out = first_out + Accumulator::row(g, i);
      product[row * Shape::kProductStride + out] = sum[t][i];
    }
  }
  __syncthreads();
}

// Four neighbouring outputs of a row, over all of the stage's inputs.
template <class Shape>
__device__ __forceinline__ Float4 tile_sum(const unsigned char* shared, int row, int out) {
  const auto* product = reinterpret_cast<const float*>(shared) + row * Shape::kProductStride + out;
  Float4 sum = load4(product);
#pragma unroll
  for (int k_warp = 1; k_warp < Shape::kKWarps; k_warp++) {
    const Float4 more = load4(product + k_warp * Shape::kRows * Shape::kProductStride);
#pragma unroll
    for (int i = 0; i < 4; i++) sum.x[i] += more.x[i];
  }
  return sum;
}

}  // namespace fulmar::gpu
