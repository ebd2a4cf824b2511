// RWKV-6's chunked recurrence by mma.sync fragments (fragment.h): the products of wkv6_prepare.h, and the
// walk of chunk_walk.h.
#include "gpu/recurrence/chunk_walk.h"
#include "gpu/recurrence/wkv6_prepare.h"

namespace fulmar::gpu {

namespace {

// What the walk reads of a chunk and head, in the register order of mma's lanes.
struct alignas(16) Chunk6 {
  Factor r;                // R exp E
  KeyOperand k;            // K exp(G_last - G)
  Half m[kWarp][4][2];     // [lane][2 * tile of t + tile of s][neighbours s]
  float decay[kHeadSize];  // exp G_last
  ValueOperand v;          // V^T

  __device__ __forceinline__ Half* r_row(int t) { return r[t]; }
  __device__ __forceinline__ void put_rows(int t, int c, uint32_t key, uint32_t value);
  __device__ static void multiply_levels(const Prepare6Shared& shared, Chunk6& out);
  __device__ static void advance(const Chunk6& data, int tile, WalkState& state, Passed& passed);
  __device__ static void emit(const Chunk6& data, int tile, const Passed& passed, WalkOutput& y);
};

// Stores a row pair: rows 2q and 2q+1 are in the first half, 2q+8 and 2q+9 in the second.
__device__ __forceinline__ void Chunk6::put_rows(int t, int c, uint32_t key, uint32_t value) {
  const int half = t / kThreadRows, q = t % kThreadRows / 2;
  *reinterpret_cast<uint32_t*>(&k[tile_of(c)][key_place(tile_of(c), column_of(c) * 4 + q)][2 * half]) = key;
  uint4& to = v[c / 16][value_place(c / 16, c % 8 * 4 + q)];
  reinterpret_cast<uint32_t*>(&to)[c % 16 / 8 + 2 * half] = value;
}

// Computes this warp's level of M. Entries of other levels are selected away, not multiplied by zero.
__device__ __forceinline__ void Chunk6::multiply_levels(const Prepare6Shared& shared, Chunk6& out) {
  const int level = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  float sum[2][4] = {};
  multiply_factors(level == 0 ? shared.left : shared.level[level], shared.level[level], sum);
#pragma unroll
  for (int n = 0; n < 2; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int t = g + i / 2 * 8, s = n * 8 + 2 * q + i % 2;
      if (level_of_entry(t, s) == level)
        out.m[lane][i / 2 * 2 + n][i % 2] = from_float<Half>(s > t ? 0.0f : sum[n][i]);
    }
  }
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

void wkv6_chunk(const Queue& queue, const Batch& batch, const float* bonus, const Projected6& p,
                const ChunkWalk& walk) {
  prepare_chunks6(queue, walk.chunks, walk.n_head, bonus, p, static_cast<Chunk6*>(walk.workspace));
  walk_chunks<Chunk6>(queue, batch, walk);
}

}  // namespace fulmar::gpu
