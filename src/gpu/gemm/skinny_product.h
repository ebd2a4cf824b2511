// One warp's part of out[16, rows] = weight[16, K] * in[rows, K]^T by mma.sync, weights read straight from
// memory into registers, 16 bytes per lane. One row takes this path, too: plain multiply-adds in f32 would
// not keep up with the memory.
#pragma once

#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/device/launch_place.h"
#include "gpu/device/ptx.h"

namespace fulmar::gpu {

constexpr int kTileOut = 16;    // outputs of a warp's tile
constexpr int kTileRows = 8;    // rows of one accumulator
constexpr int kRowsPiece = 64;  // inputs that a warp takes at a time (K tile)

// Adds the products of half a piece. Any order of the inputs will do if weights and rows agree on it: a
// lane's eight neighbouring inputs serve as its positions in two instructions.
template <class T, int kTiles>
__device__ __forceinline__ void multiply_half(const uint4& low, const uint4& high, int half,
                                              const uint4 (&from)[kTiles][2], float (&sum)[kTiles][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; t++) {
    const uint4& v = from[t][half];
    mma<T>(sum[t], low.x, high.x, low.y, high.y, v.x, v.y);
    mma<T>(sum[t], low.z, high.z, low.w, high.w, v.z, v.w);
  }
}

// Adds the products of the pieces first_piece, first_piece + kStep, ... Of accumulator t, lane 4g+q holds the
// outputs g and g + 8 for the rows 8t + 2q and 8t + 2q + 1. Outputs and rows past the end repeat the last
// ones; their results are undefined. Weights are constant and may be fetched before the previous kernel has
// finished (PDL); `in` is read only after that.
template <class T, int kTiles, int kStep>
__device__ __forceinline__ void multiply_rows(const T* weight, int outs_left, const Rows<const T>& in,
                                              int rows, int k, int first_piece, float (&sum)[kTiles][4],
                                              LaunchPlace place = LaunchPlace::alone) {
  constexpr int kAhead = kTiles == 1 ? 4 : 3;        // pieces of weights in flight
  constexpr int kInputsAhead = kTiles == 1 ? 4 : 1;  // and of inputs; more of either would spill registers
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const auto* low =
      reinterpret_cast<const uint4*>(weight + static_cast<int64_t>(min(g, outs_left - 1)) * k) + q;
  const auto* high =
      reinterpret_cast<const uint4*>(weight + static_cast<int64_t>(min(g + 8, outs_left - 1)) * k) + q;
  const uint4* row[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; t++)
    row[t] = reinterpret_cast<const uint4*>(in[min(t * kTileRows + g, rows - 1)]) + q;
  constexpr int kVectors = kRowsPiece / 8;  // of a piece; a lane's are at 0 and 4
  const int whole = k / kRowsPiece;
  const int count = whole > first_piece ? (whole - first_piece + kStep - 1) / kStep : 0;
  uint4 a[kAhead][4];  // (low row, high row) x (first, second half of the piece)
  uint4 x[kInputsAhead][kTiles][2];

  const auto fetch_weights = [&](uint4(&to)[4], int i) {
    const int at = (first_piece + i * kStep) * kVectors;
    to[0] = __ldcs(low + at), to[1] = __ldcs(low + at + 4);
    to[2] = __ldcs(high + at), to[3] = __ldcs(high + at + 4);
  };
  const auto fetch_inputs = [&](uint4(&to)[kTiles][2], int i) {
    const int at = (first_piece + i * kStep) * kVectors;
#pragma unroll
    for (int t = 0; t < kTiles; t++) to[t][0] = row[t][at], to[t][1] = row[t][at + 4];
  };
#pragma unroll
  for (int i = 0; i < kAhead; i++) {
    if (i < count) fetch_weights(a[i], i);
  }
  pdl_wait_for_inputs(place);
#pragma unroll
  for (int i = 0; i < kInputsAhead; i++) {
    if (i < count) fetch_inputs(x[i], i);
  }
  for (int base = 0; base < count; base += kAhead) {
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ahead++) {
      const int i = base + ahead;
      if (i >= count) break;
      multiply_half<T>(a[ahead][0], a[ahead][2], 0, x[ahead % kInputsAhead], sum);
      multiply_half<T>(a[ahead][1], a[ahead][3], 1, x[ahead % kInputsAhead], sum);
      if (i + kAhead < count) fetch_weights(a[ahead], i + kAhead);
      if (i + kInputsAhead < count) fetch_inputs(x[ahead % kInputsAhead], i + kInputsAhead);
    }
  }
  // The inputs after the last whole piece.
  if (k % kRowsPiece != 0 && (whole - first_piece) % kStep == 0 && whole >= first_piece) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int at = whole * kVectors + half * 4;
      const bool inside = (at + q) * 8 < k;
      const uint4 from_low = inside ? low[at] : uint4{}, from_high = inside ? high[at] : uint4{};
      uint4 from[kTiles][2];
#pragma unroll
      for (int t = 0; t < kTiles; t++) from[t][half] = inside ? row[t][at] : uint4{};
      multiply_half<T>(from_low, from_high, half, from, sum);
    }
  }
}

// Stores a warp's accumulators at part[row * stride + out].
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
