// Inputs of a row's products that every block computes for itself from the residual stream: norm, token shift
// and mixes. For rows so short that this is quicker than a kernel before the GEMV.
#pragma once

#include <climits>

#include "gpu/device/pair.h"
#include "gpu/gemm/gemv.h"
#include "gpu/gemm/gemv_stream.h"
#include "gpu/math/moments.h"

namespace fulmar::gpu {

struct NormedRow {
  const float *x, *weight, *bias, *carried;  // [C]
  int cols;
  float* z;  // [C]: norm(x), which a later kernel carries on
};

// A RowNorm as kernels take it.
struct Norming {
  NormedRow row;  // complete but for `carried`, which lies in a slot
  Slots<float> carry;
  const int32_t* slot;
  __device__ NormedRow here() const {
    NormedRow found = row;
    found.carried = carry[slot[0]];
    return found;
  }
};
inline Norming norming_of(const RowNorm& norm) {
  return {{norm.x.as<const float>(), norm.norm->weight.as<const float>(), norm.norm->bias.as<const float>(),
           nullptr, static_cast<int>(norm.x.cols), norm.z.as<float>()},
          slots_of<float>(norm.carry),
          norm.slot};
}

// Makes the inputs of kRows mixes; tiles from `second` on take the second. Before the previous kernel has
// finished, all but x and its moments is known: lerp(z, carried, mix) = (x - mean) * scale * factor + rest.
template <class T, int kRows>
class MadeInputs {
 public:
  __device__ MadeInputs(const NormedRow& row, const float* const (&mix)[kRows], uint4* shared,
                        int second = INT_MAX)
      : row_(row), mix_(mix), shared_(shared), second_(second) {}

  __device__ void prepare(const StreamPlan& plan) {
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      if (!has(plan, i)) continue;
      const int c = channel(plan, i);
      const Float4 weight = load4(row_.weight + c), bias = load4(row_.bias + c),
                   previous = load4(row_.carried + c);
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        const Float4 mix = load4(mix_[r] + c);
#pragma unroll
        for (int e = 0; e < 4; e++) {
          factor_[r][i].x[e] = weight.x[e] * (1.0f - mix.x[e]);
          rest_[r][i].x[e] = bias.x[e] + (previous.x[e] - bias.x[e]) * mix.x[e];
        }
      }
    }
  }

  __device__ void complete(const StreamPlan& plan) {
    __shared__ float2 parts[kWarp];
    Float4 v[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      if (has(plan, i)) v[i] = load4(row_.x + channel(plan, i));
    }
    const MeanAndScale by = moments(v, Pieces{plan, row_.cols}, parts);
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      if (!has(plan, i)) continue;
#pragma unroll
      for (float& e : v[i].x) e = (e - by.mean) * by.scale;
      if (blockIdx.x == 0) leave(v[i], channel(plan, i));
#pragma unroll
      for (int r = 0; r < kRows; r++) put(plan, r, i, v[i]);
    }
    __syncwarp();
  }

  __device__ const uint4* of(const StreamPlan& plan, int tile) const {
    return plan.column(plan.own(shared_, tile >= second_ ? 1 : 0), true);
  }

 private:
  // Vectors of four numbers: of a thread, and of a piece (K tile), of which a warp takes two at a time.
  static constexpr int kVectors = kMostMadeCols / (kStreamThreads * 4), kPieceVectors = kStreamPiece / 4;

  __device__ static int of_warp(int i) {
    return i * (kWarp / kPieceVectors) + threadIdx.x % kWarp / kPieceVectors;
  }
  __device__ static bool has(const StreamPlan& plan, int i) { return of_warp(i) < plan.each; }
  __device__ static int channel(const StreamPlan& plan, int i) {
    return plan.piece(of_warp(i)) * kStreamPiece + static_cast<int>(threadIdx.x) % kPieceVectors * 4;
  }
  // The rows' pieces as moments() takes them.
  struct Pieces {
    const StreamPlan& plan;
    int cols;
    __device__ bool has(int i) const { return MadeInputs::has(plan, i); }
    __device__ int of_warp(int warp) const {
      return max(cols / kStreamPiece - warp + kStreamWarps - 1, 0) / kStreamWarps * kStreamPiece;
    }
  };

  __device__ void leave(const Float4& v, int c) const {
    const Float4 weight = load4(row_.weight + c), bias = load4(row_.bias + c);
    Float4 z;
#pragma unroll
    for (int e = 0; e < 4; e++) z.x[e] = v.x[e] * weight.x[e] + bias.x[e];
    store4(row_.z + c, z);
  }
  __device__ void put(const StreamPlan& plan, int r, int i, const Float4& v) const {
    Float4 mixed;
#pragma unroll
    for (int e = 0; e < 4; e++) mixed.x[e] = v.x[e] * factor_[r][i].x[e] + rest_[r][i].x[e];
    T* piece = reinterpret_cast<T*>(plan.own(shared_, r) + of_warp(i) * plan.kPairLoads);
    store4(PairPointers<T>{piece, piece + kStreamPiece}, static_cast<int>(threadIdx.x) % kPieceVectors * 4,
           mixed);
  }

  const NormedRow& row_;
  const float* const (&mix_)[kRows];
  uint4* shared_;
  int second_;
  Float4 factor_[kRows][kVectors], rest_[kRows][kVectors];
};

}  // namespace fulmar::gpu
