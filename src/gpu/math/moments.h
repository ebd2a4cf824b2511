// Mean and variance of a row that one block holds in registers.
#pragma once

#include "gpu/device/element.h"
#include "gpu/math/head_math.h"
#include "ops/args.h"

namespace fulmar::gpu {

// A row distributed over the block's threads, kVectors pieces of four numbers each; piece i of a thread
// begins at column at(i).
template <int kVectors>
struct RowPiece {
  static constexpr int kLaneNumbers = 4;
  int cols;
  __device__ int at(int i) const { return (i * static_cast<int>(blockDim.x) + threadIdx.x) * kLaneNumbers; }
  __device__ bool has(int i) const { return at(i) < cols; }
  // Returns how many of the row's numbers a warp holds.
  __device__ int of_warp(int warp) const {
    int count = 0;
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      const int begin = (i * static_cast<int>(blockDim.x) + warp * kWarp) * kLaneNumbers;
      count += min(max(cols - begin, 0), kWarp * kLaneNumbers);
    }
    return count;
  }
};

struct MeanAndScale {
  float mean, scale;
};

// Returns the moments of a row. `pieces` is a RowPiece or has the same three members.
//
// Every warp computes mean and sum of squared differences of its part, then the parts are merged (Chan's
// parallel variance): one barrier, where a two-pass variance needs two, and none of the cancellation of a sum
// of squares.
template <int kVectors, class Pieces>
__device__ MeanAndScale moments(const Float4 (&v)[kVectors], const Pieces& piece, float2 (&parts)[kWarp]) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  float sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < kVectors; i++) sum += piece.has(i) ? total(v[i]) : 0.0f;
  const float mean = warp_sum(sum) / static_cast<float>(max(piece.of_warp(warp), 1));
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (!piece.has(i)) continue;
#pragma unroll
    for (const float e : v[i].x) squares += (e - mean) * (e - mean);
  }
  squares = warp_sum(squares);
  if (lane == 0) parts[warp] = make_float2(mean, squares);
  __syncthreads();
  const float2 part = lane < warps ? parts[lane] : float2{};
  const float count = lane < warps ? static_cast<float>(piece.of_warp(lane)) : 0.0f;
  const float all = static_cast<float>(piece.cols), row_mean = warp_sum(part.x * count) / all;
  const float away = part.x - row_mean;
  return {row_mean, rsqrtf(warp_sum(part.y + count * away * away) / all + kLayerNormEps)};
}

}  // namespace fulmar::gpu
