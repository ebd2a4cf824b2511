// RWKV-7's chunked recurrence by mma.sync fragments (fragment.h): the products of wkv7_prepare.h, and the
// walk of chunk_walk.h.
#include "gpu/recurrence/chunk_walk.h"
#include "gpu/recurrence/wkv7_prepare.h"

namespace fulmar::gpu {

namespace {

// What the preparing kernel stores for the walk, per chunk and head, in the register order of mma's lanes.
struct alignas(16) Chunk7 {
  Factor w;           // W
  Factor r;           // R exp G
  KeyOperand k, b;    // K, B exp(G_last - G)
  uint4 m_rk[kWarp];  // by lane; pairs of [row tile][half of the inner rows]
  uint4 m_rb[kWarp];
  float decay[kHeadSize];  // exp G_last
  ValueOperand u;          // U~^T as accumulators: [row tile][element]
  ValueOperand v;          // V^T

  static constexpr int kLeastBlocks = 7;
  __device__ __forceinline__ Half* r_row(int t) { return r[t]; }
  __device__ __forceinline__ Half* w_row(int t) { return w[t]; }
  __device__ __forceinline__ void put_rows(int t, int c, uint32_t key, uint32_t rate, uint32_t value);
  __device__ __forceinline__ void put_u(int t, int c, uint32_t pair);
  __device__ static void multiply_between_rows(Prepare7Shared& shared, Chunk7& out);
  __device__ static void advance(const Chunk7& data, int tile, WalkState& state, Passed& passed);
  __device__ static void emit(const Chunk7& data, int tile, const Passed& passed, WalkOutput& y);
};

// Stores a row pair: rows 2q and 2q+1 are in the first half, 2q+8 and 2q+9 in the second.
__device__ __forceinline__ void Chunk7::put_rows(int t, int c, uint32_t key, uint32_t rate, uint32_t value) {
  const int half = t / kMiddleRow, q = t % kMiddleRow / 2, tile = tile_of(c);
  const int place = key_place(tile, column_of(c) * 4 + q);
  *reinterpret_cast<uint32_t*>(&k[tile][place][2 * half]) = key;
  *reinterpret_cast<uint32_t*>(&b[tile][place][2 * half]) = rate;
  uint4& to = v[c / 16][value_place(c / 16, c % 8 * 4 + q)];
  reinterpret_cast<uint32_t*>(&to)[c % 16 / 8 + 2 * half] = value;
}
__device__ __forceinline__ void Chunk7::put_u(int t, int c, uint32_t pair) {
  uint4& to = u[c / 16][value_place(c / 16, c % 8 * 4 + t % 8 / 2)];
  reinterpret_cast<uint32_t*>(&to)[t / 8 * 2 + c % 16 / 8] = pair;
}

// Computes one of the four 16 x 16 products in each warp. The two with R are stored for the walk, M_ab stays
// in shared memory, and M_ak is multiplied by V at once.
__device__ __forceinline__ void Chunk7::multiply_between_rows(Prepare7Shared& shared, Chunk7& out) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const bool with_r = warp >= 2, with_k = warp % 2 == 1;  // ab, ak, rb, rk
  float sum[2][4] = {};
  multiply_factors(with_r ? shared.r : out.w, with_k ? shared.k : shared.b, sum);
  // Entries outside the triangle are selected away, not multiplied by zero: they may be infinite.
#pragma unroll
  for (int n = 0; n < 2; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int t = g + i / 2 * 8, s = n * 8 + 2 * q + i % 2;
      if (with_r ? s > t : s >= t) sum[n][i] = 0;
    }
  }
  if (warp == 0) {
#pragma unroll
    for (int n = 0; n < 2; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++) shared.m_ab[n * 8 + 2 * q + i % 2][g + i / 2 * 8] = sum[n][i];
    }
    return;
  }
  uint32_t packed[2][2];  // [inner tile][row tile]
#pragma unroll
  for (int n = 0; n < 2; n++) {
    packed[n][0] = pack_floats<Half>(sum[n][0], sum[n][1]);
    packed[n][1] = pack_floats<Half>(sum[n][2], sum[n][3]);
  }
  if (with_r) {
    (with_k ? out.m_rk : out.m_rb)[lane] = make_uint4(packed[0][0], packed[1][0], packed[0][1], packed[1][1]);
    return;
  }
  // The accumulator of one product is the left operand of the next, with V as right operand.
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; tile++) {
    const uint4 v = out.v[tile][value_place(tile, lane)];
#pragma unroll
    for (int n = 0; n < 2; n++) {
      float product[4] = {};
      mma<Half>(product, packed[0][0], packed[0][1], packed[1][0], packed[1][1], n == 0 ? v.x : v.y,
                n == 0 ? v.z : v.w);
      float* to = &shared.m_ak_v[g][tile * 16 + n * 8 + 2 * q];
      store2(to, product[0], product[1]);
      store2(to + (&shared.m_ak_v[8][0] - &shared.m_ak_v[0][0]), product[2], product[3]);
    }
  }
}

__device__ __forceinline__ uint4 four(const void* at) { return *static_cast<const uint4*>(at); }

__device__ __forceinline__ void Chunk7::advance(const Chunk7& data, int tile, WalkState& state,
                                                Passed& passed) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  pack_state(state, passed);
  const auto& s = passed.s;
  float u[2][4], more[2][4] = {};  // two independent accumulators: mma on one waits for the one before
  {
    const uint4 packed = data.u[tile][value_place(tile, lane)];
    Half e[8];
    memcpy(e, &packed, sizeof(e));
#pragma unroll
    for (int i = 0; i < 8; i++) u[i / 4][i % 4] = to_float(e[i]);
  }
#pragma unroll
  for (int n = 0; n < 2; n++) {
    const uint4 w0 = four(&data.w[n * 8 + g][16 * q]), w1 = four(&data.w[n * 8 + g][16 * q + 8]);
    mma<Half>(u[n], s[0][0], s[0][1], s[1][0], s[1][1], w0.x, w0.y);
    mma<Half>(more[n], s[4][0], s[4][1], s[5][0], s[5][1], w1.x, w1.y);
    mma<Half>(u[n], s[2][0], s[2][1], s[3][0], s[3][1], w0.z, w0.w);
    mma<Half>(more[n], s[6][0], s[6][1], s[7][0], s[7][1], w1.z, w1.w);
  }
  const uint4 v = data.v[tile][value_place(tile, lane)];
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const Float2 decay = load2(&data.decay[16 * q + 2 * j]);
    const uint2 k = *reinterpret_cast<const uint2*>(data.k[j][key_place(j, lane)]);
#pragma unroll
    for (int i = 0; i < 4; i++) state[j][i] *= decay.x[i % 2];
    mma<Half>(state[j], v.x, v.y, v.z, v.w, k.x, k.y);
  }
#pragma unroll
  for (int n = 0; n < 2; n++) {
    passed.u[2 * n] = pack_floats<Half>(u[n][0] + more[n][0], u[n][1] + more[n][1]);
    passed.u[2 * n + 1] = pack_floats<Half>(u[n][2] + more[n][2], u[n][3] + more[n][3]);
  }
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const uint2 b = *reinterpret_cast<const uint2*>(data.b[j][key_place(j, lane)]);
    mma<Half>(state[j], passed.u[0], passed.u[1], passed.u[2], passed.u[3], b.x, b.y);
  }
}

__device__ __forceinline__ void Chunk7::emit(const Chunk7& data, int tile, const Passed& passed,
                                             WalkOutput& y) {
  const int lane = threadIdx.x % kWarp;
  const auto& u = passed.u;
  emit_state(data.r, passed, y);
  emit_rows(data.v[tile][value_place(tile, lane)], data.m_rk[lane], y);
  emit_rows(make_uint4(u[0], u[1], u[2], u[3]), data.m_rb[lane], y);
}

}  // namespace

size_t wkv7_chunk_workspace(int64_t chunks, int64_t n_head) {
  return static_cast<size_t>(chunks * n_head) * sizeof(Chunk7);
}

void wkv7_chunk_prepare(const Queue& queue, const Chunks& chunks, int64_t n_head, const Projected7& p,
                        const RawProjected7& raw, void* workspace) {
  prepare_chunks7(queue, chunks, n_head, p, raw, static_cast<Chunk7*>(workspace));
}

void wkv7_chunk_walk(const Queue& queue, const Batch& batch, const ChunkWalk& walk) {
  walk_chunks<Chunk7>(queue, batch, walk);
}

}  // namespace fulmar::gpu
