// What the kernels from RWKV-7's first low-rank halves to its output product have in common: which warp of a
// head's block multiplies what, and how weights and vectors of the layer come to it before the kernel in front
// has finished.
#pragma once

#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/math/finish7.h"
#include "gpu/math/head_math.h"
#include "ops/args.h"

namespace fulmar::gpu {

// The layer's vectors: biases of the paths, what prepares keys, the head norm's and the bonus's.
enum HeadVector : int { kW0, kA0, kV0, kKk, kKa, kNormWeight, kNormBias, kRk, kHeadVectors };
constexpr int kAttendPiece = 64;  // inputs of a piece
constexpr int kAttendPieces = 4;  // of a warp
constexpr int kGateShares = 2;    // warps that share the inputs of a tile; 1 for the other paths
constexpr int kHeadProducts = kLowRankPaths7 + kGateShares - 1;  // sums that a channel gets
constexpr int kProductWarps = kHeadTiles * kHeadProducts;
constexpr int kAttendThreads = kProductWarps * kWarp;
constexpr int kMostGateRank = kAttendPieces * kGateShares * kAttendPiece;
constexpr int kMostOtherRank = kAttendPieces * kAttendPiece;

// Which tile of which path a warp multiplies, and from which piece on.
struct Role {
  int path, tile, share, shares;
};
__device__ inline Role role_of(int warp) {
  const int group = warp / kHeadTiles;
  if (group < kGateShares) return {kGatePath, warp % kHeadTiles, group, kGateShares};
  return {group - kGateShares, warp % kHeadTiles, 0, 1};
}

// A warp's weights as they lie in memory: two rows of outputs, two halves of each piece; zero beyond the
// rank.
struct WeightPieces {
  uint4 of[kAttendPieces][4];
};
template <class T>
__device__ WeightPieces fetch_weights(const T* tile, int rank, const Role& role) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  WeightPieces out;
#pragma unroll
  for (int i = 0; i < kAttendPieces; i++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int at = (role.share + i * role.shares) * kAttendPiece + half * 32 + q * 8;
      const bool inside = at < rank;
      const auto* low = reinterpret_cast<const uint4*>(tile + g * rank + at);
      const auto* high = reinterpret_cast<const uint4*>(tile + (g + 8) * rank + at);
      out.of[i][half] = inside ? __ldcs(low) : uint4{};
      out.of[i][2 + half] = inside ? __ldcs(high) : uint4{};
    }
  }
  return out;
}

// sum += the warp's weights times the columns that its lanes hold; `column`: this lane's, zero from the rank
// to the end of its last piece.
template <class T>
__device__ void multiply_pieces(const WeightPieces& weights, const Role& role, int rank, const uint4* column,
                                float (&sum)[4]) {
  const int lane = threadIdx.x % kWarp, q = lane % 4;
#pragma unroll
  for (int i = 0; i < kAttendPieces; i++) {
    const int piece = role.share + i * role.shares;
    if (piece * kAttendPiece >= rank) break;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const uint4 v = column[piece * 8 + half * 4 + q];
      const uint4 &low = weights.of[i][half], &high = weights.of[i][2 + half];
      mma<T>(sum, low.x, high.x, low.y, high.y, v.x, v.y);
      mma<T>(sum, low.z, high.z, low.w, high.w, v.z, v.w);
    }
  }
}

struct LayerVectors {
  const float* of[kHeadVectors];  // [C]; null: not in this block
};
inline LayerVectors layer_vectors(const TimeMix7& att) {
  const Tensor vectors[kHeadVectors] = {att.w.bias, att.a.bias,      att.v.bias,    att.k_k,
                                        att.k_a,    att.ln_x.weight, att.ln_x.bias, att.r_k};
  LayerVectors out{};
  for (int i = 0; i < kHeadVectors; i++) out.of[i] = vectors[i].as<const float>();
  return out;
}

// A head's part of them, into shared memory. Constant, so all may come before the kernel in front has finished;
// from memory each would cost a microsecond where it is wanted.
using HeadVectors = float[kHeadVectors][kHeadSize];
__device__ inline void bring_vectors(const LayerVectors& from, int64_t channel, HeadVectors& to) {
  constexpr int kPiecesOfHead = kHeadSize / 4;
  const int which = threadIdx.x / kPiecesOfHead, c = threadIdx.x % kPiecesOfHead * 4;
  if (which >= kHeadVectors || from.of[which] == nullptr) return;
  store4(to[which] + c, load4(from.of[which] + channel + c));
}
__device__ inline LeaveWeights leave_weights(const HeadVectors& vectors) {
  return {vectors[kNormWeight], vectors[kNormBias], vectors[kRk]};
}

}  // namespace fulmar::gpu
