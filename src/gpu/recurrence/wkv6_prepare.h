// RWKV-6's chunked recurrence, chunks of 16 rows: the part that does not depend on the state.
//
// With g = log of the decay, G its running sum within a chunk, E = G without the row's own:
// //   M[t, s] = sum over keys of R[t] K[s] exp(E[t] - G[s])  for s < t,   M[t, t] = sum of R[t] u K[t]
// //   Y = M V + (R exp E) S0^T
// //   S = S0 diag(exp G_last) + V^T (K exp(G_last - G))
// Everything that does not depend on the state is computed first, for all chunks and heads at once.
//
// The decay has no lower bound, so exp(E[t]) exp(-G[s]) may not be formed: one of the two could be infinite.
// Each pair of rows gets a reference row r between them, s <= r < t, which makes both factors of exp(E[t] -
// G[r]) exp(G[r] - G[s]) at most 1. Pairs whose row numbers differ first in bit L share the reference before
// the first row of t's block of 2^L rows: on level L a row is a left factor where bit L of its number is set
// and a right factor elsewhere. Four levels, one warp and one 16 x 16 product each.
//
// The template parameter `Chunk` is what the walk reads of a chunk and head, in its own layout. This file
// uses
// //   r_row(t)                R exp E, 64 key channels
// //   decay[64]               exp G_last
// //   put_rows(t, c, k, v)    stores channel c of the rows t and t + 1, t even, as words of two halves:
// //                           K exp(G_last - G), V
// //   multiply_levels(shared, chunk)   computes M
#pragma once

#include "gpu/device/element.h"
#include "gpu/recurrence/factor.h"
#include "gpu/recurrence/recurrence.h"

namespace fulmar::gpu {

constexpr int kPrepare6Threads = 128;
constexpr int kLevels = 4;
constexpr int kThreadRows = kChunk / 2;  // per thread: one channel of half a chunk
// exp(-64) vanishes beside any f32 that it is added to, and sums of such logs keep their precision.
constexpr float kLeastLogDecay = -64.0f;
static_assert(kChunk == 1 << kLevels && kPrepare6Threads == kLevels * kWarp &&
              kPrepare6Threads == 2 * kHeadSize);

struct ChunkInputs6 {
  const void *r, *k, *v, *u;
  int64_t stride;
  const float* bonus;  // [C]
};

struct alignas(16) Prepare6Shared {
  Factor level[kLevels];  // left and right factors of levels 1 and up; right ones of level 0
  Factor left;            // of level 0, whose diagonal needs left and right factors of every row
  float half_sum[2][kHeadSize];
};

// One channel of half a chunk; rows past the end are zero, which leaves the state unchanged.
struct Column {
  float r[kThreadRows], k[kThreadRows], v[kThreadRows];
  // running sums of log decays, with and without the row's own
  float through[kThreadRows], before[kThreadRows];
  float sum;
};

template <class T>
__device__ void fetch_column(const ChunkInputs6& in, int64_t first_row, int rows, int t0, int64_t channel,
                             Column& out) {
  out.sum = 0;
#pragma unroll
  for (int i = 0; i < kThreadRows; i++) {
    out.r[i] = out.k[i] = out.v[i] = 0;
    out.before[i] = out.sum;
    if (t0 + i < rows) {
      const int64_t at = (first_row + t0 + i) * in.stride + channel;
      const auto number = [&](const void* from) { return to_float(static_cast<const T*>(from)[at]); };
      out.r[i] = number(in.r);
      out.k[i] = number(in.k);
      out.v[i] = number(in.v);
      out.sum += fmaxf(-__expf(number(in.u)), kLeastLogDecay);
    }
    out.through[i] = out.sum;
  }
}

// Computes the factors of the products, and the parts of `out` that need no product. All references but the
// highest level's are within a thread's own half.
template <class Chunk>
__device__ void scale_column(const Column& in, int c, int half, float bonus, Prepare6Shared& shared,
                             Chunk& out) {
  shared.half_sum[half][c] = in.sum;
  __syncthreads();
  const float other = __expf(shared.half_sum[1 - half][c]);
  if (half == 0) out.decay[c] = __expf(in.sum) * other;
  Half to_end[kThreadRows];
#pragma unroll
  for (int i = 0; i < kThreadRows; i++) {
    const int t = half * kThreadRows + i;
    const float left = in.r[i] * __expf(in.before[i]), right = in.k[i] * __expf(in.sum - in.through[i]);
    out.r_row(t)[c] = from_float<Half>(half == 1 ? left * other : left);
    to_end[i] = from_float<Half>(half == 0 ? right * other : right);
    shared.level[3][t][c] = from_float<Half>(half == 1 ? left : right);
#pragma unroll
    for (int level = 1; level < kLevels - 1; level++) {
      const float reference = in.through[(i >> (level + 1) << (level + 1)) + (1 << level) - 1];
      const float factor = (i >> level & 1) != 0 ? in.r[i] * __expf(in.before[i] - reference)
                                                 : in.k[i] * __expf(reference - in.through[i]);
      shared.level[level][t][c] = from_float<Half>(factor);
    }
    // Between neighbours the exponent is zero; the diagonal's bonus takes entries that level 0 does not use.
    shared.left[t][c] = from_float<Half>(i % 2 == 1 ? in.r[i] : in.r[i] * bonus);
    shared.level[0][t][c] = from_float<Half>(i % 2 == 1 ? in.k[i] * bonus : in.k[i]);
  }
#pragma unroll
  for (int i = 0; i < kThreadRows; i += 2) {
    out.put_rows(half * kThreadRows + i, c, pack(to_end[i], to_end[i + 1]),
                 pack_floats<Half>(in.v[i], in.v[i + 1]));
  }
}

// Returns the level that entry (t, s) of M belongs to.
__device__ __forceinline__ int level_of_entry(int t, int s) { return s >= t ? 0 : 31 - __clz(t ^ s); }

template <class Chunk, class T>
__global__ void __launch_bounds__(kPrepare6Threads)
    wkv6_chunk_prepare_kernel(Chunks chunks, ChunkInputs6 in, Chunk* data) {
  __shared__ Prepare6Shared shared;
  __shared__ Chunk out;  // assembled here, so that it is written to global memory coalesced
  pdl_launch_next();
  pdl_wait();
  const int64_t head = blockIdx.x, chunk = blockIdx.y;
  const int c = threadIdx.x % kHeadSize, half = threadIdx.x / kHeadSize;
  const int64_t channel = head * kHeadSize + c;
  Column column;
  fetch_column<T>(in, chunks.row[chunk], chunks.rows[chunk], half * kThreadRows, channel, column);
  scale_column(column, c, half, in.bonus[channel], shared, out);
  __syncthreads();
  Chunk::multiply_levels(shared, out);
  __syncthreads();
  const auto* from = reinterpret_cast<const uint4*>(&out);
  auto* to = reinterpret_cast<uint4*>(&data[chunk * gridDim.x + head]);
  for (unsigned i = threadIdx.x; i < sizeof(Chunk) / sizeof(uint4); i += kPrepare6Threads) to[i] = from[i];
}

template <class Chunk>
void prepare_chunks6(const Queue& queue, const Chunks& chunks, int64_t n_head, const float* bonus,
                     const Projected6& p, Chunk* data) {
  const ChunkInputs6 in{p.r.data, p.k.data, p.v.data, p.u.data, p.r.stride, bonus};
  with_activation(p.r.dtype, [&](auto sample) {
    launch(queue, wkv6_chunk_prepare_kernel<Chunk, decltype(sample)>,
           dim3(static_cast<unsigned>(n_head), static_cast<unsigned>(chunks.count)), dim3(kPrepare6Threads),
           0, chunks, in, data);
  });
}

}  // namespace fulmar::gpu
