// A block's tile of out[rows, outs] = in[rows, K] * weight[outs, K]^T by mma.sync. Weights go straight
// from memory to fragments, several pieces (K tiles) in flight per warp; the rows, which all warps
// share, pass through shared memory by a multistage cp.async pipeline, swizzled against bank
// conflicts. Occupancy: two blocks per SM.
#pragma once

#include <algorithm>

#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/device/ptx.h"

namespace fulmar::gpu {

constexpr int kTileThreads = 256;
constexpr int kTilePiece = 64;  // inputs that a warp multiplies at a time (K tile)
constexpr int kWarpPieces = 2, kWarpInputs = kWarpPieces * kTilePiece;  // of a warp in a stage

// A shape of kOutWarps x kKWarps warps, each with 16 outputs of all rows. Warps with the same outputs divide
// a stage's inputs among themselves.
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
  int outs;     // of the tile, without padding, at least 1
  const T* in;  // of the tile's first row
  int64_t in_stride;
  int rows;          // of the tile, without padding, at least 1
  int k;             // inputs of a row
  int first, steps;  // the split-K slice of k: `steps` stages from `first` on, zeros beyond k
};

// `Weights` of multiply_tile are those of a warp's 16 outputs: kPieces of a stage, kAhead of them
// in flight. fetch(piece, i) loads the i-th piece, multiply(piece, ...) adds its products to the
// sums. tile_vector returns where 16-byte vector `vector` of a stage's row lies (swizzle): lanes
// that read at a time hit different banks.

// Loads 16-bit weights [outs, k].
template <class T, class Shape>
class PlainTileWeights {
 public:
  static constexpr int kPieces = kWarpPieces, kAhead = 4;
  using Matrix = const T*;
  using Piece = uint4[4];  // (low row, high row) x (first, second half of the piece)

  __device__ PlainTileWeights(const T* matrix, int first_out_of_tile, const TileOperands<T>& a)
      : k_warp_(static_cast<int>(threadIdx.x) / kWarp / Shape::kOutWarps), pieces_(kPieces * a.steps) {
    const int g = fragment_group(), first_out = static_cast<int>(threadIdx.x) / kWarp % Shape::kOutWarps * 16;
    const int first_in = a.first + k_warp_ * kWarpInputs + fragment_place() * 8;
    const T* weight = matrix + static_cast<int64_t>(first_out_of_tile) * a.k;
    low_ = weight + static_cast<int64_t>(min(first_out + g, a.outs - 1)) * a.k + first_in;
    high_ = weight + static_cast<int64_t>(min(first_out + g + 8, a.outs - 1)) * a.k + first_in;
    inputs_ = a.k - first_in;
  }
  __device__ __forceinline__ void fetch(Piece& to, int piece) const {
    if (piece >= pieces_) return;
    const int at = piece / kPieces * Shape::kStep + piece % kPieces * kTilePiece;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const bool inside = at + half * 32 < inputs_;
      to[half] = inside ? __ldcs(reinterpret_cast<const uint4*>(low_ + at + half * 32)) : uint4{};
      to[2 + half] = inside ? __ldcs(reinterpret_cast<const uint4*>(high_ + at + half * 32)) : uint4{};
    }
  }
  static __device__ __forceinline__ int tile_vector(int row, int vector) {
    return row * (Shape::kStep / 8) + (vector ^ (row & 1) * 4);
  }
  // Adds the products of a piece. Any order of the inputs will do if both operands agree on it: a lane's
  // eight neighbouring inputs serve as its positions in two instructions.
  __device__ __forceinline__ void multiply(const Piece& v, int piece, const uint4* from,
                                           float (&sum)[Shape::kRowTiles][4]) const {
    const int g = fragment_group(), q = fragment_place();
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
      for (int t = 0; t < Shape::kRowTiles; t++) {
        const uint4 x = from[tile_vector(t * 8 + g, (k_warp_ * kPieces + piece) * 8 + half * 4 + q)];
        mma<T>(sum[t], v[half].x, v[2 + half].x, v[half].y, v[2 + half].y, x.x, x.y);
        mma<T>(sum[t], v[half].z, v[2 + half].z, v[half].w, v[2 + half].w, x.z, x.w);
      }
    }
  }

 private:
  const T *low_, *high_;
  int k_warp_, pieces_;
  int inputs_;  // from the lane's first one to the end of its row
};

// Stores a warp's sums where tile_sum reads them.
template <class Shape>
__device__ __forceinline__ void store_tile_sums(const float (&sum)[Shape::kRowTiles][4],
                                                unsigned char* shared) {
  const int g = fragment_group(), q = fragment_place(), warp = threadIdx.x / kWarp;
  const int first_out = warp % Shape::kOutWarps * 16, k_warp = warp / Shape::kOutWarps;
  auto* product = reinterpret_cast<float*>(shared) + k_warp * Shape::kRows * Shape::kProductStride;
#pragma unroll
  for (int t = 0; t < Shape::kRowTiles; t++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = t * 8 + Accumulator::column(q, i), out = first_out + Accumulator::row(g, i);
      product[row * Shape::kProductStride + out] = sum[t][i];
    }
  }
}

// Computes the tile's sums in `shared` (Shape::kBytes), complete for all threads, for tile_sum to read;
// those beyond the tile are undefined. Reads `in` only after the previous kernels have finished (PDL).
template <class Shape, class T, class Weights>
__device__ __forceinline__ void multiply_tile(const TileOperands<T>& a, const Weights& weights,
                                              unsigned char* shared) {
  constexpr int kStagePieces = Weights::kPieces, kAhead = Weights::kAhead;  // of a stage; in flight
  typename Weights::Piece w[kAhead];
  constexpr int kPieces = Shape::kStep / 8;            // of 16 bytes, of a stage's row
  constexpr int kRowsAtOnce = kTileThreads / kPieces;  // that all threads copy at a time
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
        __pipeline_memcpy_async(stage(step) + Weights::tile_vector(own_row + i * kRowsAtOnce, own_piece),
                                inside ? in[i] + at : in[i], 16, inside ? 0 : 16);
      }
    }
    __pipeline_commit();  // also an empty group: waiting counts commits
  };

#pragma unroll
  for (int i = 0; i < kAhead; i++) weights.fetch(w[i], i);
  pdl_wait();
#pragma unroll
  for (int step = 0; step < Shape::kStages - 1; step++) fetch_inputs(step);

  float sum[Shape::kRowTiles][4] = {};
  constexpr int kSteps = kAhead / kStagePieces;  // that use each register buffer of weights once
  for (int base = 0; base < a.steps; base += kSteps) {
#pragma unroll
    for (int ahead = 0; ahead < kSteps; ahead++) {
      const int step = base + ahead;
      if (step >= a.steps) break;
      __pipeline_wait_prior(Shape::kStages - 2);
      __syncthreads();
      fetch_inputs(step + Shape::kStages - 1);  // into the stage that all warps have finished reading
      const uint4* from = stage(step);
#pragma unroll
      for (int p = 0; p < kStagePieces; p++) {
        typename Weights::Piece& v = w[ahead * kStagePieces + p];
        weights.multiply(v, p, from, sum);
        weights.fetch(v, step * kStagePieces + p + kAhead);
      }
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();  // the sums overwrite the stages
  store_tile_sums<Shape>(sum, shared);
  __syncthreads();
}

// Returns the sums of four neighbouring outputs of a row over all warps that divide its inputs.
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
