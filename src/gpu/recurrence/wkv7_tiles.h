// RWKV-7's chunks as 16 x 16 tiles: a `Chunk` of wkv7_prepare.h that tile_walk.h walks over.
#pragma once

#include "gpu/recurrence/tile_walk.h"
#include "gpu/recurrence/wkv7_prepare.h"

namespace fulmar::gpu {

enum Kind : int { kOfKeys, kOfRates };  // R, K, M_rk, V; W, B, M_rb, U

template <class Form>
struct TiledChunk7 : TileChunk<2> {
  static constexpr int kLeastBlocks = 1;
  __device__ __forceinline__ Half* r_row(int t) { return rows[kOfKeys][t]; }
  __device__ __forceinline__ Half* w_row(int t) { return rows[kOfRates][t]; }
  __device__ __forceinline__ void put_rows(int t, int c, uint32_t key, uint32_t rate, uint32_t value) {
    *reinterpret_cast<uint32_t*>(&keys[kOfKeys][c][t]) = key;
    *reinterpret_cast<uint32_t*>(&keys[kOfRates][c][t]) = rate;
    *reinterpret_cast<uint32_t*>(&values[kOfKeys][c][t]) = value;
  }
  __device__ __forceinline__ void put_u(int t, int c, uint32_t pair) {
    *reinterpret_cast<uint32_t*>(&values[kOfRates][c][t]) = pair;
  }

  // Computes the products between a chunk's rows: M_ab stays in shared memory, the two products with R are
  // stored for the walk, and M_ak is multiplied by V once it is complete.
  __device__ __forceinline__ static void multiply_between_rows(Prepare7Shared& shared, TiledChunk7& out) {
    using Layout = ResolvedLayout<Form>;
    constexpr int kWaves = kPrepareThreads / Layout::kLanes, kProducts = 4;
    __shared__ __align__(16) Half m_ak[kChunk][kNarrowRow];
    const int wave = tile_wave<Layout>(), lane = tile_lane<Layout>(), s = Layout::column(lane);
    for (int product = wave; product < kProducts; product += kWaves) {
      const bool with_r = product >= 2, with_k = product % 2 == 1;  // ab, ak, rb, rk
      const Half *left = with_r ? shared.r[0] : out.rows[kOfRates][0],
                 *right = (with_k ? shared.k : shared.b)[0];
      TileSums<Layout> sums = {};
#pragma unroll
      for (int at = 0; at < kHeadSize; at += kTile) {
        multiply_tiles<Layout>(left + at, kWideRow, right + at, kWideRow, sums);
      }
      // Entries outside the triangle are selected away, not multiplied by zero: they may be infinite.
#pragma unroll
      for (int i = 0; i < Layout::kSums; i++) {
        const int t = Layout::row(lane, i);
        const float x = (with_r ? s > t : s >= t) ? 0.0f : sums[i];
        if (with_r) {
          out.between[with_k ? kOfKeys : kOfRates][t][s] = operand_of(x);
        } else if (with_k) {
          m_ak[t][s] = operand_of(x);
        } else {
          shared.m_ab[s][t] = x;
        }
      }
    }
    __syncthreads();
    for (int tile = wave; tile < kHeadTiles; tile += kWaves) {
      TileSums<Layout> sums = {};
      multiply_tiles<Layout>(m_ak[0], kNarrowRow, out.values[kOfKeys][tile * kTile], kChunk, sums);
#pragma unroll
      for (int i = 0; i < Layout::kSums; i++) shared.m_ak_v[Layout::row(lane, i)][tile * kTile + s] = sums[i];
    }
  }
};
static_assert(sizeof(Factor) == sizeof(Half) * kChunk * kWideRow);

}  // namespace fulmar::gpu
