// One warp's share of out[16, rows] = weight[16, K] * in[rows, K]^T on matrix units, weights read straight
// from memory into registers, 16 bytes per lane. Even one row goes this way: plain multiply-adds in f32 would
// not keep up with the memory.
#pragma once

#include "gpu/element.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

constexpr int kTileOut = 16;    // outputs of a warp's tile
constexpr int kTileRows = 8;    // rows of one accumulator
constexpr int kPiece = 64;      // inputs a warp takes at a time

// Accumulates pieces first_piece, first_piece + step, ... Lane 4g+q holds of accumulator t the outputs g and
// g + 8 for the rows 8t + 2q and 8t + 2q + 1. Weights are constant and may be fetched before the kernel in
// front has finished; `in` is touched only after that.
template <class T, int kTiles>
__device__ __forceinline__ void multiply_rows(const T* weight, int64_t outs_left, const Rows<const T>& in,
                                              int rows, int k, int first_piece, int step,
                                              float (&sum)[kTiles][4]) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const bool low_valid = g < outs_left, high_valid = g + 8 < outs_left;
  const T* low_row = weight + static_cast<int64_t>(g) * k + q * 8;
  const T* high_row = low_row + static_cast<int64_t>(8) * k;
  const int pieces = (k + kPiece - 1) / kPiece;
  constexpr int kPiecesAhead = 2;  // on their way from the cache; the memory's latency is prefetch's business
  uint4 a[kPiecesAhead][4];  // (low row, high row) x (first, second half of the piece)
  uint4 x[kPiecesAhead][2][kTiles];

  const auto fetch_weights = [&](uint4(&to)[4], int piece) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int at = piece * kPiece + half * 32;
      const bool inside = piece < pieces && at + q * 8 < k;
      to[half] = inside && low_valid ? __ldcs(reinterpret_cast<const uint4*>(low_row + at)) : uint4{};
      to[2 + half] = inside && high_valid ? __ldcs(reinterpret_cast<const uint4*>(high_row + at)) : uint4{};
    }
  };
  // As far ahead as the weights: waiting for the inputs of each piece would cost more than its arithmetic.
  const auto fetch_inputs = [&](uint4(&to)[2][kTiles], int piece) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int at = piece * kPiece + half * 32 + q * 8;
#pragma unroll
      for (int t = 0; t < kTiles; t++) {
        const int row = t * kTileRows + g;
        const bool inside = row < rows && piece < pieces && at < k;
        to[half][t] = inside ? *reinterpret_cast<const uint4*>(in[row] + at) : uint4{};
      }
    }
  };
#pragma unroll
  for (int ahead = 0; ahead < kPiecesAhead; ahead++) fetch_weights(a[ahead], first_piece + ahead * step);
  wait_for_previous();
#pragma unroll
  for (int ahead = 0; ahead < kPiecesAhead; ahead++) fetch_inputs(x[ahead], first_piece + ahead * step);

  for (int base = first_piece; base < pieces; base += kPiecesAhead * step) {
#pragma unroll
    for (int ahead = 0; ahead < kPiecesAhead; ahead++) {
      // Pieces past the end are zeros.
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const uint4 low = a[ahead][half], high = a[ahead][2 + half];
#pragma unroll
        for (int t = 0; t < kTiles; t++) {
          // Any order of the inputs will do if weights and rows agree on it: a lane's eight neighbours serve as
          // the positions that two instructions want from it.
          const uint4 from = x[ahead][half][t];
          matrix_multiply_add<T>(sum[t], low.x, high.x, low.y, high.y, from.x, from.y);
          matrix_multiply_add<T>(sum[t], low.z, high.z, low.w, high.w, from.z, from.w);
        }
      }
      const int next = base + (ahead + kPiecesAhead) * step;
      fetch_weights(a[ahead], next);
      fetch_inputs(x[ahead], next);
    }
  }
}

// Puts a warp's accumulators into part[row * stride + out].
template <int kTiles>
__device__ __forceinline__ void spread_rows(const float (&sum)[kTiles][4], float* part, int stride) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
#pragma unroll
  for (int t = 0; t < kTiles; t++) {
    const int row = t * kTileRows + 2 * q;
    part[row * stride + g] = sum[t][0];
    part[(row + 1) * stride + g] = sum[t][1];
    part[row * stride + g + 8] = sum[t][2];
    part[(row + 1) * stride + g + 8] = sum[t][3];
  }
}

}  // namespace fulmar::gpu
