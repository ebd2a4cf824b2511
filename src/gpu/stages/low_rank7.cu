// RWKV-7's second low-rank GEMMs, [C, R] with small R, with project7's elementwise tail fused: biases,
// sigmoids, value residual and key preparation.
#include "base/check.h"
#include "gpu/gemm/skinny_product.h"
#include "gpu/math/finish7.h"
#include "gpu/math/head_math.h"
#include "gpu/stages/low_rank.h"

namespace fulmar::gpu {

namespace {

constexpr int kLowRank7Warps = 8;
constexpr int kLowRank7Threads = kLowRank7Warps * kWarp;

template <class T>
struct LowRankFinish {
  int rows;
  bool first_block;
  Rows<const T> low[kLowRankPaths7];  // [rows, R]
  const T* weight[kLowRankPaths7];    // [C, R]
  int rank[kLowRankPaths7];
  Finish7Vectors by;
  Rows<T> k, v, u, kk, alpha, g, v_first;
};

// Applies the tail to one row's 64 outputs of a path; one warp, two channels per lane.
template <class T>
__device__ void finish_path(const LowRankFinish<T>& to, int path, int row, int64_t c, const Float2& product) {
  switch (path) {
    case kDecayPath:
      return store2(to.u[row] + c, decay_of(product.x[0], to.by.w0[c]),
                    decay_of(product.x[1], to.by.w0[c + 1]));
    case kGatePath:
      return store2(to.g[row] + c, product.x[0], product.x[1]);
    case kValuePath: {
      Float2 value = load2(to.v[row] + c);
      if (to.first_block) return store2(to.v_first[row] + c, value.x[0], value.x[1]);
      const Float2 towards = load2(to.v_first[row] + c);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        value.x[i] = mixed_value(value.x[i], towards.x[i], value_share(product.x[i], to.by.v0[c + i]));
      }
      return store2(to.v[row] + c, value.x[0], value.x[1]);
    }
    case kRatePath: {
      const Float2 rate = {{rate_of(product.x[0], to.by.a0[c]), rate_of(product.x[1], to.by.a0[c + 1])}};
      const PreparedKey prepared = prepare_key(load2(to.k[row] + c), rate, to.by.k_k + c, to.by.k_a + c);
      store2(to.alpha[row] + c, rate.x[0], rate.x[1]);
      store2(to.kk[row] + c, prepared.kk.x[0], prepared.kk.x[1]);
      return store2(to.k[row] + c, prepared.k.x[0], prepared.k.x[1]);
    }
  }
}

// Computes a path's outputs of one head and a group of rows: four tiles of 16 outputs, two warps each.
template <class T, int kTiles>
__global__ void __launch_bounds__(kLowRank7Threads, 2)
    low_rank_finish7_kernel(const __grid_constant__ LowRankFinish<T> to) {
  constexpr int kHeadStride = kHeadSize + 2;
  __shared__ float part[2][kTiles * kTileRows * kHeadStride];
  const int warp = threadIdx.x / kWarp, tile = warp % kHeadTiles, share = warp / kHeadTiles;
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kHeadSize;
  const int path = blockIdx.y, first_row = blockIdx.z * kTiles * kTileRows;
  const int rows = min(to.rows - first_row, kTiles * kTileRows);
  pdl_launch_next();
  float sum[kTiles][4] = {};
  const int rank = to.rank[path];
  if (rank > 0) {
    const Rows<const T> low = {to.low[path][first_row], to.low[path].stride};
    multiply_rows<T, kTiles, 2>(to.weight[path] + (channel + tile * kTileOut) * rank, kTileOut, low, rows,
                                rank, share, sum);
  }
  pdl_wait();
  spread_rows<kTiles>(sum, part[share] + tile * kTileOut, kHeadStride);
  __syncthreads();
  const int c = 2 * (threadIdx.x % kWarp);
  for (int row = warp; row < rows; row += kLowRank7Warps) {
    const float *one = &part[0][row * kHeadStride + c], *other = &part[1][row * kHeadStride + c];
    finish_path(to, path, first_row + row, channel + c, Float2{{one[0] + other[0], one[1] + other[1]}});
  }
}

}  // namespace

bool suits_second_half7(const Weight& second) {
  return second.plain16() && !second.by_input() && second.in % 8 == 0;
}

void low_rank_finish7(const Queue& queue, const SecondHalves7& halves) {
  const auto& [att, first_block, v_first, lows, p] = halves;
  const Tensor low[kLowRankPaths7] = {lows.w, lows.a, lows.v, lows.g};
  const LowRank* paths[kLowRankPaths7] = {&att.w, &att.a, &att.v, &att.g};
  with_activation(p.k.dtype, [&](auto sample) {
    using T = decltype(sample);
    LowRankFinish<T> to{};
    to.rows = static_cast<int>(p.k.rows);
    to.first_block = first_block;
    for (int i = 0; i < kLowRankPaths7; i++) {
      to.low[i] = {low[i].as<const T>(), low[i].stride};
      to.weight[i] = static_cast<const T*>(paths[i]->second.data);
      to.rank[i] = static_cast<int>(paths[i]->second.in);
    }
    if (first_block) to.rank[kValuePath] = 0;
    to.by = finish7_vectors(att);
    to.k = rows_of<T>(p.k);
    to.v = rows_of<T>(p.v);
    to.u = rows_of<T>(p.u);
    to.kk = rows_of<T>(p.kk);
    to.alpha = rows_of<T>(p.alpha);
    to.g = rows_of<T>(p.g);
    to.v_first = rows_of<T>(v_first);
    const auto launch_groups = [&](auto tiles) {
      const dim3 grid(static_cast<unsigned>(att.n_head), kLowRankPaths7,
                      static_cast<unsigned>((to.rows + tiles() * kTileRows - 1) / (tiles() * kTileRows)));
      launch(queue, low_rank_finish7_kernel<T, tiles()>, grid, dim3(kLowRank7Threads), 0, to);
    };
    if (to.rows <= kTileRows) return launch_groups(std::integral_constant<int, 1>{});
    launch_groups(std::integral_constant<int, 4>{});
  });
}

}  // namespace fulmar::gpu
