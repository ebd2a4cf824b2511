// RWKV-7's chunked recurrence (WY form), chunks of 16 rows: the part that does not depend on the state.
//
// With A = -kk, B = kk * alpha, G the running sum of log decays within a chunk, E = G without the row's own:
// //   M_ab, M_ak, M_rk, M_rb   products of A, R with K, B, each scaled by exp of differences of E and G
// //   U = W S0^T + U~          W = (I - M_ab)^-1 (A exp E), U~ = (I - M_ab)^-1 M_ak V
// //   Y = M_rk V + M_rb U + (R exp G) S0^T
// //   S = S0 diag(exp G_last) + V^T (K exp(G_last - G)) + U^T (B exp(G_last - G))
// One kernel computes all that does not depend on the state, for all chunks and heads at once (from raw GEMM
// outputs if wanted); another walks the chunks of each sequence with the state in registers. Products have
// f16 operands, whose exponents stay small because both factors are centred on the chunk's middle row; sums,
// the triangular solve and the state are f32.
//
// The template parameter `Chunk` is what the walk reads of a chunk and head, in its own layout. This file
// uses
// //   r_row(t), w_row(t)       R exp G and W, 64 key channels; the latter holds A until W is known
// //   decay[64]                exp G_last
// //   put_rows(t, c, k, b, v)  stores channel c of the rows t and t + 1, t even, as words of two halves:
// //                            K and B scaled by exp(G_last - G), V
// //   put_u(t, c, u)           stores U~ in the same way
// //   multiply_between_rows(shared, chunk)   computes M_ab and M_ak V for the solve, M_rk and M_rb
// //   kLeastBlocks             min blocks per SM of the kernel
#pragma once

#include "base/check.h"
#include "gpu/device/warp_sums.h"
#include "gpu/math/finish7.h"
#include "gpu/math/head_math.h"
#include "gpu/recurrence/factor.h"
#include "gpu/recurrence/recurrence.h"

namespace fulmar::gpu {

constexpr int kPrepareWarps = 4, kPrepareThreads = kPrepareWarps * kWarp;
constexpr int kWarpRows = kChunk / kPrepareWarps;  // per warp; each lane has two channels
constexpr int kMiddleRow = kChunk / 2;             // the exponents' reference

struct ChunkInputs7 {
  const void *r, *k, *v, *u, *kk, *alpha;
  int64_t stride;
};

// project7's elementwise tail for raw GEMM outputs: its inputs, and where its results go.
struct RawInputs {
  // whether values mix with the first block's by `share`; false in the first block
  bool mixes;
  const void *share, *v_first;  // where nothing is mixed: any readable rows
  void* v;                      // the finished values
  float* agreement;             // [rows, heads], the bonus of leave7
  Finish7Vectors by;
  const float* r_k;
};

struct alignas(16) Prepare7Shared {
  // Factors centred on the middle row. A, the fourth of them, is stored in W's place until W is known.
  Factor r, b, k;
  float a_decayed[kChunk][kHeadSize];   // A exp E
  float m_ak_v[kChunk][kHeadSize + 8];  // M_ak V; before that, its first row holds G of the middle row
  // transposed: [inner row][row]; before that, each warp's sums of log decays
  float m_ab[kChunk][kChunk + 4];
  __device__ __forceinline__ float* part_sum(int warp) { return &m_ab[0][0] + warp * kHeadSize; }
};
static_assert(sizeof(Prepare7Shared::m_ab) >= kPrepareWarps * kHeadSize * sizeof(float));

__device__ __forceinline__ void store_pair(Half* to, float low, float high) {
  *reinterpret_cast<uint32_t*>(to) = pack_floats<Half>(low, high);
}

// One lane's channels of one row; `g` is the log of the decay.
struct ChannelRow {
  Float2 r, k, v, kk, b, g;
};

template <class T>
__device__ __forceinline__ Float2 pair_at(const void* from, int64_t at) {
  return load2(static_cast<const T*>(from) + at);
}

template <class T>
__device__ ChannelRow finished_row(const ChunkInputs7& in, int64_t at) {
  ChannelRow row{pair_at<T>(in.r, at),  pair_at<T>(in.k, at),     pair_at<T>(in.v, at),
                 pair_at<T>(in.kk, at), pair_at<T>(in.alpha, at), pair_at<T>(in.u, at)};
#pragma unroll
  for (int e = 0; e < 2; e++) {
    row.b.x[e] *= row.kk.x[e];
    row.g.x[e] = log_decay7(row.g.x[e]);
  }
  return row;
}

// The vectors for one lane's channels that finish raw rows.
struct RawWeights {
  Float2 w0, a0, v0, k_k, k_a, r_k;
  __device__ RawWeights(const RawInputs& raw, int64_t c)
      : w0(load2(raw.by.w0 + c)),
        a0(load2(raw.by.a0 + c)),
        v0(raw.mixes ? load2(raw.by.v0 + c) : Float2{}),
        k_k(load2(raw.by.k_k + c)),
        k_a(load2(raw.by.k_a + c)),
        r_k(load2(raw.r_k + c)) {}
};

// One lane's channels of one row, as stored, so that the loads of all rows are in flight at once.
struct RawRow {
  uint32_t r, k, v, rate, decay, share, first;
};
template <class T>
__device__ __forceinline__ RawRow fetch_raw(const ChunkInputs7& in, const RawInputs& raw, int at) {
  const auto word = [&](const void* from) {
    return *reinterpret_cast<const uint32_t*>(static_cast<const T*>(from) + at);
  };
  return {word(in.r), word(in.k), word(in.v), word(in.alpha), word(in.u), word(raw.share), word(raw.v_first)};
}

// Finishes raw rows as finish_project7 does, and returns their agreements (for leave_heads7): that of row i
// in lane (kWarpRows + i) * kLanesEach.
constexpr int kLanesEach = kWarp / (2 * kWarpRows);
template <class T>
__device__ __forceinline__ float finish_raw_rows(const RawRow (&from)[kWarpRows], const RawInputs& raw,
                                                 const RawWeights& by, ChannelRow (&rows)[kWarpRows]) {
  const auto pair = [](const uint32_t& word) { return load2(reinterpret_cast<const T*>(&word)); };
  float sums[2 * kWarpRows];  // squared norms of each row's keys, then agreements
  float rate[kWarpRows][2];
#pragma unroll
  for (int i = 0; i < kWarpRows; i++) {
    ChannelRow& row = rows[i];
    const Float2 key = pair(from[i].k), raw_rate = pair(from[i].rate), decay = pair(from[i].decay);
    const Float2 share = pair(from[i].share), first = pair(from[i].first);
    row.r = pair(from[i].r), row.v = pair(from[i].v);
    sums[i] = sums[kWarpRows + i] = 0;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float towards = raw.mixes ? value_share(share.x[e], by.v0.x[e]) : 0.0f;
      row.v.x[e] = mixed_value(row.v.x[e], first.x[e], towards);
      rate[i][e] = rate_of(raw_rate.x[e], by.a0.x[e]);
      row.g.x[e] = log_decay7(decay_of(decay.x[e], by.w0.x[e]));
      row.kk.x[e] = key.x[e] * by.k_k.x[e];
      row.k.x[e] = key.x[e] * (1.0f + (rate[i][e] - 1.0f) * by.k_a.x[e]);
      sums[i] += row.kk.x[e] * row.kk.x[e];
      sums[kWarpRows + i] += row.r.x[e] * row.k.x[e] * by.r_k.x[e];
    }
  }
  const float sum = warp_sums(sums), scale = key_scale(sum);
#pragma unroll
  for (int i = 0; i < kWarpRows; i++) {
    ChannelRow& row = rows[i];
    const float by_norm = __shfl_sync(kFullWarp, scale, i * kLanesEach);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      row.kk.x[e] *= by_norm;
      row.b.x[e] = row.kk.x[e] * rate[i][e];
    }
  }
  return sum;
}

// Log decays of a lane's two channels, summed over rows from the chunk's first one on.
struct DecaySums {
  float before[2], all[2];  // before the warp's first row; of the chunk
  Float2 centre;            // up to the middle row, the first of the third warp
};
__device__ __forceinline__ DecaySums sum_decays(const ChannelRow (&rows)[kWarpRows], Prepare7Shared& shared) {
  const int warp = threadIdx.x / kWarp, c = 2 * (threadIdx.x % kWarp);
  float sum[2] = {};
#pragma unroll
  for (int i = 0; i < kWarpRows; i++) {
#pragma unroll
    for (int e = 0; e < 2; e++) sum[e] += rows[i].g.x[e];
  }
  store2(shared.part_sum(warp) + c, sum[0], sum[1]);
  __syncthreads();
  DecaySums sums{};
#pragma unroll
  for (int w = 0; w < kPrepareWarps; w++) {
    const Float2 part = load2(shared.part_sum(w) + c);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      if (w < warp) sums.before[e] += part.x[e];
      sums.all[e] += part.x[e];
    }
  }
  static_assert(kMiddleRow == 2 * kWarpRows);
  float* middle = &shared.m_ak_v[0][c];
  if (warp == 2) store2(middle, sums.before[0] + rows[0].g.x[0], sums.before[1] + rows[0].g.x[1]);
  __syncthreads();
  sums.centre = load2(middle);
  return sums;
}

// Fills `shared` and the parts of `out` that need no products. A warp has four rows, a lane two channels.
// Rows past the end are zero, which leaves the state unchanged.
template <class Chunk>
__device__ void scale_rows(const ChannelRow (&rows)[kWarpRows], Prepare7Shared& shared, Chunk& out) {
  const int warp = threadIdx.x / kWarp, c = 2 * (threadIdx.x % kWarp), t0 = warp * kWarpRows;
  auto [running, last, centre] = sum_decays(rows, shared);
  // The distance from the centre to either end is at most 10, so two exponentials per number give all four
  // that are needed: exp(G - centre), exp G, exp(centre - G), exp(G_last - G).
  float from_begin[2], to_end[2], left_before[2];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    from_begin[e] = exp_of(centre.x[e]);
    to_end[e] = exp_of(last[e] - centre.x[e]);
    left_before[e] = exp_of(running[e] - centre.x[e]);  // of the row before: A's factor for its own row
  }
  float k_end[kWarpRows][2], b_end[kWarpRows][2];
#pragma unroll
  for (int i = 0; i < kWarpRows; i++) {
    const int t = t0 + i;
    const ChannelRow& row = rows[i];
    float a_left[2], r_left[2], k_right[2], b_right[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
      running[e] += row.g.x[e];
      const float left = exp_of(running[e] - centre.x[e]), right = exp_of(centre.x[e] - running[e]);
      a_left[e] = -row.kk.x[e] * left_before[e];
      r_left[e] = row.r.x[e] * left;
      k_right[e] = row.k.x[e] * right;
      b_right[e] = row.b.x[e] * right;
      k_end[i][e] = k_right[e] * to_end[e];
      b_end[i][e] = b_right[e] * to_end[e];
      left_before[e] = left;
    }
    store_pair(out.w_row(t) + c, a_left[0], a_left[1]);
    store_pair(&shared.r[t][c], r_left[0], r_left[1]);
    store_pair(&shared.b[t][c], b_right[0], b_right[1]);
    store_pair(&shared.k[t][c], k_right[0], k_right[1]);
    store_pair(out.r_row(t) + c, r_left[0] * from_begin[0], r_left[1] * from_begin[1]);
    store2(&shared.a_decayed[t][c], a_left[0] * from_begin[0], a_left[1] * from_begin[1]);
  }
  if (warp == 0) {
    store2(&out.decay[c], from_begin[0] * to_end[0], from_begin[1] * to_end[1]);
  }
#pragma unroll
  for (int i = 0; i < kWarpRows; i += 2) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      out.put_rows(t0 + i, c + e, pack_floats<Half>(k_end[i][e], k_end[i + 1][e]),
                   pack_floats<Half>(b_end[i][e], b_end[i + 1][e]),
                   pack_floats<Half>(rows[i].v.x[e], rows[i + 1].v.x[e]));
    }
  }
}

// Solves (I - M_ab) x = right side by forward substitution; each thread has one column of W or U~.
template <class Chunk>
__device__ void solve(const Prepare7Shared& shared, Chunk& out) {
  const int c = threadIdx.x % kHeadSize;
  const bool for_u = threadIdx.x >= kHeadSize;
  float x[kChunk];
#pragma unroll
  for (int t = 0; t < kChunk; t++) {
    if (for_u) x[t] = shared.m_ak_v[t][c];
  }
#pragma unroll
  for (int t = 0; t < kChunk; t++) {
    if (!for_u) x[t] = shared.a_decayed[t][c];
  }
  // x[s] is final here; all later rows now add their multiple of it.
#pragma unroll
  for (int s = 0; s < kChunk - 1; s++) {
#pragma unroll
    for (int t = (s + 1) / 4 * 4; t < kChunk; t += 4) {
      const Float4 by = load4(&shared.m_ab[s][t]);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (t + i > s) x[t + i] += by.x[i] * x[s];
      }
    }
  }
  if (!for_u) {
#pragma unroll
    for (int t = 0; t < kChunk; t++) out.w_row(t)[c] = from_float<Half>(x[t]);
    return;
  }
#pragma unroll
  for (int t = 0; t < kChunk; t += 2) out.put_u(t, c, pack_floats<Half>(x[t], x[t + 1]));
}

template <class Chunk, class T, bool kRaw>
__global__ void __launch_bounds__(kPrepareThreads, Chunk::kLeastBlocks)
    wkv7_chunk_prepare_kernel(Chunks chunks, ChunkInputs7 in, const __grid_constant__ RawInputs raw,
                              Chunk* data) {
  __shared__ Prepare7Shared shared;
  __shared__ Chunk out;  // assembled here, so that it is written to global memory coalesced
  pdl_launch_next();
  pdl_wait();
  const int64_t head = blockIdx.x, chunk = blockIdx.y;
  const int lane = threadIdx.x % kWarp;
  const int64_t channel = head * kHeadSize + 2 * lane;
  const int t0 = threadIdx.x / kWarp * kWarpRows, remaining = chunks.rows[chunk] - t0;
  const int64_t first_row = chunks.row[chunk] + t0;
  ChannelRow rows[kWarpRows];
  if constexpr (kRaw) {
    // Rows past the end read the chunk's last row.
    const auto at = [&](int i) {
      return static_cast<int>((first_row + min(i, remaining - 1)) * in.stride + channel);
    };
    RawRow fetched[kWarpRows];
#pragma unroll
    for (int i = 0; i < kWarpRows; i++) fetched[i] = fetch_raw<T>(in, raw, at(i));
    const float sum = finish_raw_rows<T>(fetched, raw, RawWeights(raw, channel), rows);
#pragma unroll
    for (int i = 0; i < kWarpRows; i++) {
      if (i < remaining) store2(static_cast<T*>(raw.v) + at(i), rows[i].v.x[0], rows[i].v.x[1]);
    }
    if (remaining < kWarpRows) {
#pragma unroll
      for (int i = 0; i < kWarpRows; i++) {
        if (i >= remaining) rows[i] = {};
      }
    }
    const int finished = lane / kLanesEach - kWarpRows;
    if (lane % kLanesEach == 0 && finished >= 0 && finished < remaining) {
      raw.agreement[(first_row + finished) * gridDim.x + head] = sum;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWarpRows; i++) {
      rows[i] = {};
      if (i < remaining) rows[i] = finished_row<T>(in, (first_row + i) * in.stride + channel);
    }
  }
  scale_rows(rows, shared, out);
  __syncthreads();
  Chunk::multiply_between_rows(shared, out);
  __syncthreads();
  solve(shared, out);
  __syncthreads();
  const auto* from = reinterpret_cast<const uint4*>(&out);
  auto* to = reinterpret_cast<uint4*>(&data[chunk * gridDim.x + head]);
  constexpr unsigned kChunkVectors = sizeof(Chunk) / sizeof(uint4);
#pragma unroll
  for (unsigned i = 0; i < kChunkVectors; i += kPrepareThreads) {
    if (i + kPrepareThreads <= kChunkVectors || i + threadIdx.x < kChunkVectors)
      to[i + threadIdx.x] = from[i + threadIdx.x];
  }
}

template <class Chunk>
void prepare_chunks7(const Queue& queue, const Chunks& chunks, int64_t n_head, const Projected7& p,
                     const RawProjected7& raw, Chunk* data) {
  const ChunkInputs7 in{p.r.data, p.k.data, p.v.data, p.u.data, p.kk.data, p.alpha.data, p.r.stride};
  // Chunks along grid.y: at most 65536 rows make 4096 chunks plus one per sequence.
  const dim3 grid(static_cast<unsigned>(n_head), static_cast<unsigned>(chunks.count));
  with_activation(p.r.dtype, [&](auto sample) {
    using T = decltype(sample);
    if (raw.att == nullptr) {
      return launch(queue, wkv7_chunk_prepare_kernel<Chunk, T, false>, grid, dim3(kPrepareThreads), 0, chunks,
                    in, RawInputs{}, data);
    }
    const TimeMix7& att = *raw.att;
    FULMAR_CHECK(raw.v_first.stride == p.v.stride && p.v.rows * p.v.stride <= INT32_MAX);
    const bool mixes = raw.share.data != nullptr;
    const RawInputs more{mixes,
                         mixes ? raw.share.data : p.v.data,
                         mixes ? raw.v_first.data : p.v.data,
                         !mixes ? raw.v_first.data : p.v.data,
                         raw.agreement.as<float>(),
                         finish7_vectors(att),
                         att.r_k.as<float>()};
    launch(queue, wkv7_chunk_prepare_kernel<Chunk, T, true>, grid, dim3(kPrepareThreads), 0, chunks, in, more,
           data);
  });
}

}  // namespace fulmar::gpu
