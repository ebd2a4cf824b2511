// RWKV-6's recurrence for long sequences on matrix units, chunks of 16 rows.
//
// With g = log of the decay, G its running sum within a chunk, E = G without the row's own:
//   M[t, s] = sum over keys of R[t] K[s] exp(E[t] - G[s])  for s < t,   M[t, t] = sum of R[t] u K[t]
//   Y = M V + (R exp E) S0^T
//   S = S0 diag(exp G_last) + V^T (K exp(G_last - G))
// Everything that does not depend on the state is computed first, for every chunk and head at once.
//
// The decay has no lower bound, so exp(E[t]) exp(-G[s]) may not be formed: one of the two could be infinite.
// Each pair of rows gets a reference row r between them, s <= r < t, which makes both factors of
// exp(E[t] - G[r]) exp(G[r] - G[s]) at most 1. Pairs that differ first in bit L of their row numbers share
// the reference in front of the first row of t's block of 2^L rows: on level L a row is a left factor where
// bit L of its number is set and a right factor elsewhere. Four levels, one warp and one 16 x 16 product
// each.
#include "gpu/recurrence/chunk_walk.h"

namespace fulmar::gpu {

namespace {

constexpr int kPrepare6Threads = 128;
constexpr int kLevels = 4;
constexpr int kThreadRows = kChunk / 2;  // of a thread: one channel of half a chunk
// exp(-64) is nothing beside any f32 that it is added to, and sums of it keep their precision.
constexpr float kLeastLogDecay = -64.0f;
static_assert(kChunk == 1 << kLevels && kPrepare6Threads == kLevels * kWarp &&
              kPrepare6Threads == 2 * kHeadSize);

// What the walk needs of a chunk and head, in the order in which lanes of matrix instructions take it.
struct alignas(16) Chunk6 {
  Factor r;                // R exp E
  KeyOperand k;            // K exp(G_last - G)
  Half m[kWarp][4][2];     // [lane][2 * tile of t + tile of s][neighbours s]
  float decay[kHeadSize];  // exp G_last
  ValueOperand v;          // V^T

  __device__ static void advance(const Chunk6& data, int tile, WalkState& state, Passed& passed);
  __device__ static void emit(const Chunk6& data, int tile, const Passed& passed, WalkOutput& y);
};

struct ChunkInputs6 {
  const void *r, *k, *v, *u;
  int64_t stride;
  const float* bonus;  // [C]
};

struct alignas(16) Prepare6Shared {
  Factor level[kLevels];  // left and right factors of levels 1 and up; right ones of level 0
  Factor left;            // of level 0, whose diagonal needs both of every row
  float half_sum[2][kHeadSize];
};

// One channel of half a chunk; rows past the end are zero and change nothing.
struct Column {
  float r[kThreadRows], k[kThreadRows], v[kThreadRows];
  float through[kThreadRows], before[kThreadRows];  // sums of log decays with and without the row's own
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

// Factors of the products, and the parts of `out` that need none. All references but that of the highest
// level lie within a thread's own half.
__device__ void scale_column(const Column& in, int c, int half, float bonus, Prepare6Shared& shared,
                             Chunk6& out) {
  shared.half_sum[half][c] = in.sum;
  __syncthreads();
  const float other = __expf(shared.half_sum[1 - half][c]);
  if (half == 0) out.decay[c] = __expf(in.sum) * other;
  Half to_end[kThreadRows];
#pragma unroll
  for (int i = 0; i < kThreadRows; i++) {
    const int t = half * kThreadRows + i;
    const float left = in.r[i] * __expf(in.before[i]), right = in.k[i] * __expf(in.sum - in.through[i]);
    out.r[t][c] = from_float<Half>(half == 1 ? left * other : left);
    to_end[i] = from_float<Half>(half == 0 ? right * other : right);
    shared.level[3][t][c] = from_float<Half>(half == 1 ? left : right);
#pragma unroll
    for (int level = 1; level < kLevels - 1; level++) {
      const float reference = in.through[(i >> (level + 1) << (level + 1)) + (1 << level) - 1];
      const float factor = (i >> level & 1) != 0 ? in.r[i] * __expf(in.before[i] - reference)
                                                 : in.k[i] * __expf(reference - in.through[i]);
      shared.level[level][t][c] = from_float<Half>(factor);
    }
    // Neighbours have nothing between them; the diagonal's bonus goes where level 0 has no other use.
    shared.left[t][c] = from_float<Half>(i % 2 == 1 ? in.r[i] : in.r[i] * bonus);
    shared.level[0][t][c] = from_float<Half>(i % 2 == 1 ? in.k[i] * bonus : in.k[i]);
  }
  // Rows 2q and 2q+1 lie in the first half, 2q+8 and 2q+9 in the second: each thread has one pair per q.
#pragma unroll
  for (int q = 0; q < 4; q++) {
    const int place = key_place(tile_of(c), column_of(c) * 4 + q);
    *reinterpret_cast<uint32_t*>(&out.k[tile_of(c)][place][2 * half]) =
        pack(to_end[2 * q], to_end[2 * q + 1]);
    uint4& value = out.v[c / 16][value_place(c / 16, c % 8 * 4 + q)];
    reinterpret_cast<uint32_t*>(&value)[c % 16 / 8 + 2 * half] =
        pack_floats<Half>(in.v[2 * q], in.v[2 * q + 1]);
  }
}

// This warp's level of M. Entries of other levels are chosen away, never multiplied away.
__device__ void multiply_level(const Prepare6Shared& shared, Chunk6& out) {
  const int level = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  float sum[2][4] = {};
  multiply_factors(level == 0 ? shared.left : shared.level[level], shared.level[level], sum);
#pragma unroll
  for (int n = 0; n < 2; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int t = g + i / 2 * 8, s = n * 8 + 2 * q + i % 2;
      const int level_of = s >= t ? 0 : 31 - __clz(t ^ s);
      if (level_of == level) out.m[lane][i / 2 * 2 + n][i % 2] = from_float<Half>(s > t ? 0.0f : sum[n][i]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kPrepare6Threads)
    wkv6_chunk_prepare_kernel(Chunks chunks, ChunkInputs6 in, Chunk6* data) {
  __shared__ Prepare6Shared shared;
  __shared__ Chunk6 out;  // put together here, since its parts are written in no order that memory likes
  pdl_launch_next();
  pdl_wait();
  const int64_t head = blockIdx.x, chunk = blockIdx.y;
  const int c = threadIdx.x % kHeadSize, half = threadIdx.x / kHeadSize;
  const int64_t channel = head * kHeadSize + c;
  Column column;
  fetch_column<T>(in, chunks.row[chunk], chunks.rows[chunk], half * kThreadRows, channel, column);
  scale_column(column, c, half, in.bonus[channel], shared, out);
  __syncthreads();
  multiply_level(shared, out);
  __syncthreads();
  const auto* from = reinterpret_cast<const uint4*>(&out);
  auto* to = reinterpret_cast<uint4*>(&data[chunk * gridDim.x + head]);
  for (unsigned i = threadIdx.x; i < sizeof(Chunk6) / sizeof(uint4); i += kPrepare6Threads) to[i] = from[i];
}

__device__ __forceinline__ void Chunk6::advance(const Chunk6& data, int tile, WalkState& state,
                                                Passed& passed) {
  const int lane = threadIdx.x % kWarp, q = lane % 4;
  passed = {};  // there is no U
  pack_state(state, passed);
  const uint4 v = data.v[tile][value_place(tile, lane)];
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const Float2 decay = load2(&data.decay[16 * q + 2 * j]);
    const uint2 k = *reinterpret_cast<const uint2*>(data.k[j][key_place(j, lane)]);
#pragma unroll
    for (int i = 0; i < 4; i++) state[j][i] *= decay.x[i % 2];
    mma<Half>(state[j], v.x, v.y, v.z, v.w, k.x, k.y);
  }
}

__device__ __forceinline__ void Chunk6::emit(const Chunk6& data, int tile, const Passed& passed,
                                             WalkOutput& y) {
  const int lane = threadIdx.x % kWarp;
  emit_state(data.r, passed, y);
  emit_rows(data.v[tile][value_place(tile, lane)], *reinterpret_cast<const uint4*>(data.m[lane]), y);
}

}  // namespace

size_t wkv6_chunk_workspace(int64_t chunks, int64_t n_head) {
  return static_cast<size_t>(chunks * n_head) * sizeof(Chunk6);
}

void wkv6_chunk(const Queue& queue, const Batch& batch, const Chunks& chunks, int64_t n_head,
                const float* bonus, const Projected6& p, StateField wkv, Tensor y, void* workspace,
                int multiprocessors) {
  const ChunkInputs6 in{p.r.data, p.k.data, p.v.data, p.u.data, p.r.stride, bonus};
  auto* data = static_cast<Chunk6*>(workspace);
  with_activation(y.dtype, [&](auto sample) {
    launch(queue, wkv6_chunk_prepare_kernel<decltype(sample)>,
           dim3(static_cast<unsigned>(n_head), static_cast<unsigned>(chunks.count)), dim3(kPrepare6Threads),
           0, chunks, in, data);
  });
  walk_chunks(queue, batch, chunks, n_head, wkv, y, data, multiprocessors);
}

}  // namespace fulmar::gpu
