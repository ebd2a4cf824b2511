// RWKV-7's recurrence for long sequences on matrix units (WY form of the chunked recurrence, chunks of 16
// rows).
//
// With A = -kk, B = kk * alpha, G the running sum of log decays within a chunk, E = G without the row's own:
//   M_ab, M_ak, M_rk, M_rb   products of A, R with K, B, each scaled by exp of differences of E and G
//   U = W S0^T + U~          W = (I - M_ab)^-1 (A exp E), U~ = (I - M_ab)^-1 M_ak V
//   Y = M_rk V + M_rb U + (R exp G) S0^T
//   S = S0 diag(exp G_last) + V^T (K exp(G_last - G)) + U^T (B exp(G_last - G))
// The first kernel computes all that does not depend on the state, for every chunk and head at once; the
// second walks the chunks of each sequence with the state in registers. Products take f16 operands, whose
// exponents stay small because both factors are centred on the chunk's middle row; sums, the triangular solve
// and the state are f32.
#include "base/check.h"
#include "gpu/element.h"
#include "gpu/head_math.h"
#include "gpu/kernels.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

namespace {

constexpr int kPrepareWarps = 4, kPrepareThreads = kPrepareWarps * kWarp;
constexpr int kHeadTiles = kHeadSize / 16;  // tiles of 16 value channels
constexpr int kMiddle = kChunk / 2;         // the row that exponents are centred on

// What the first kernel leaves for the second, per chunk and head, in the order in which lanes of matrix
// instructions take it. Lane 4g+q; a lane's key channels are 16q..16q+15, so that the state's rows are read
// and written in whole pieces: accumulator tile j, element e is key 16q + 2j + e.
struct alignas(16) ChunkData {
  Half w[kChunk][kHeadSize + 8];  // W; rows padded against bank conflicts
  Half r[kChunk][kHeadSize + 8];  // R exp G
  Half k[8][kWarp][4];            // K exp(G_last - G): [tile j][lane][rows 2q, 2q+1, 2q+8, 2q+9]
  Half b[8][kWarp][4];            // B exp(G_last - G), likewise
  uint32_t m_rk[kWarp][4];        // [lane][row tile][half of the inner rows], pairs
  uint32_t m_rb[kWarp][4];
  float decay[kHeadSize];            // exp G_last
  Half u[kHeadTiles][kWarp][8];      // U~^T: [value tile][lane][row tile][accumulator element]
  uint32_t v[kHeadTiles][kWarp][4];  // V^T as left operand
};

struct ChunkInputs {
  const void *r, *k, *v, *u, *kk, *alpha;
  int64_t stride;
};

// Where key channel `key` stands among the columns of accumulator tiles: tile, and column g within it.
__device__ constexpr int tile_of(int key) { return key % 16 / 2; }
__device__ constexpr int column_of(int key) { return 2 * (key / 16) + key % 2; }

struct alignas(16) PrepareShared {
  // Rows padded by 8 so that lanes of a matrix instruction read from different banks. The centred A, the
  // fourth of these factors, is kept where W will be.
  Half r[kChunk][kHeadSize + 8], b[kChunk][kHeadSize + 8], k[kChunk][kHeadSize + 8];  // centred
  float a_decayed[kChunk][kHeadSize];                                                 // A exp E
  float m_ak_v[kChunk][kHeadSize];
  float m_ab[kChunk][kChunk];  // transposed: [inner row][row]
  float part_sum[kPrepareWarps][kHeadSize];
  float middle[kHeadSize];  // G of the middle row
};

__device__ __forceinline__ void store_pair(Half* to, float low, float high) {
  *reinterpret_cast<uint32_t*>(to) = pack_floats<Half>(low, high);
}

// Fills `shared` and the parts of `out` that need no products. Warp: four rows; lane: two channels.
template <class T>
__device__ void scale_rows(const ChunkInputs& in, int64_t first_row, int rows, int64_t channel,
                           PrepareShared& shared, ChunkData& out) {
  constexpr int kRowsEach = kChunk / kPrepareWarps;
  const int warp = threadIdx.x / kWarp, c = 2 * (threadIdx.x % kWarp), t0 = warp * kRowsEach;
  Float2 r[kRowsEach], k[kRowsEach], kk[kRowsEach], b[kRowsEach], v[kRowsEach], g[kRowsEach];
  float sum[2] = {};
#pragma unroll
  for (int i = 0; i < kRowsEach; i++) {
    r[i] = k[i] = kk[i] = b[i] = v[i] = g[i] = {};  // rows past the end change nothing
    if (t0 + i < rows) {
      const int64_t at = (first_row + t0 + i) * in.stride + channel + c;
      const auto pair = [&](const void* from) { return load2(static_cast<const T*>(from) + at); };
      r[i] = pair(in.r), k[i] = pair(in.k), kk[i] = pair(in.kk), b[i] = pair(in.alpha), v[i] = pair(in.v);
      g[i] = pair(in.u);
    }
  }
#pragma unroll
  for (int i = 0; i < kRowsEach; i++) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      b[i].x[e] *= kk[i].x[e];
      g[i].x[e] = t0 + i < rows ? -kDecayScale * sigmoid(g[i].x[e]) : 0.0f;
      sum[e] += g[i].x[e];
    }
  }
  store2(&shared.part_sum[warp][c], sum[0], sum[1]);
  __syncthreads();
  float running[2] = {}, last[2] = {}, centre[2];
#pragma unroll
  for (int w = 0; w < kPrepareWarps; w++) {
    const Float2 part = load2(&shared.part_sum[w][c]);
#pragma unroll
    for (int e = 0; e < 2; e++) {
      if (w < warp) running[e] += part.x[e];
      last[e] += part.x[e];
    }
  }
  // The middle row is the first of the third warp.
  static_assert(kMiddle == 2 * kRowsEach);
  if (warp == 2) store2(&shared.middle[c], running[0] + g[0].x[0], running[1] + g[0].x[1]);
  __syncthreads();
  const Float2 middle = load2(&shared.middle[c]);
  centre[0] = middle.x[0], centre[1] = middle.x[1];

  // exp(G - centre) and exp G of the row before: what A wants of its own row.
  float left_before[2], whole_before[2];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    left_before[e] = __expf(running[e] - centre[e]);
    whole_before[e] = __expf(running[e]);
  }
  float k_end[kRowsEach][2], b_end[kRowsEach][2];
#pragma unroll
  for (int i = 0; i < kRowsEach; i++) {
    const int t = t0 + i;
    float a_left[2], r_left[2], r_whole[2], a_whole[2], k_right[2], b_right[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
      running[e] += g[i].x[e];
      const float left = __expf(running[e] - centre[e]), whole = __expf(running[e]);
      const float right = __expf(centre[e] - running[e]), end = __expf(last[e] - running[e]);
      a_left[e] = -kk[i].x[e] * left_before[e];
      a_whole[e] = -kk[i].x[e] * whole_before[e];
      r_left[e] = r[i].x[e] * left;
      r_whole[e] = r[i].x[e] * whole;
      k_right[e] = k[i].x[e] * right;
      b_right[e] = b[i].x[e] * right;
      k_end[i][e] = k[i].x[e] * end;
      b_end[i][e] = b[i].x[e] * end;
      left_before[e] = left;
      whole_before[e] = whole;
    }
    store_pair(&out.w[t][c], a_left[0], a_left[1]);
    store_pair(&shared.r[t][c], r_left[0], r_left[1]);
    store_pair(&shared.b[t][c], b_right[0], b_right[1]);
    store_pair(&shared.k[t][c], k_right[0], k_right[1]);
    store_pair(&out.r[t][c], r_whole[0], r_whole[1]);
    store2(&shared.a_decayed[t][c], a_whole[0], a_whole[1]);
  }
  if (warp == 0) {
    store2(&out.decay[c], __expf(last[0]), __expf(last[1]));
  }
  // Rows 2q and 2q+1 lie in the first half, 2q+8 and 2q+9 in the second: a warp has those of two q.
  const int half = warp / 2;
#pragma unroll
  for (int i = 0; i < kRowsEach; i += 2) {
    const int q = (t0 + i) % kMiddle / 2;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int lane = column_of(c + e) * 4 + q;
      store_pair(&out.k[tile_of(c)][lane][2 * half], k_end[i][e], k_end[i + 1][e]);
      store_pair(&out.b[tile_of(c)][lane][2 * half], b_end[i][e], b_end[i + 1][e]);
      const int value_lane = (c + e) % 8 * 4 + q, word = c % 16 / 8 + 2 * half;
      out.v[c / 16][value_lane][word] = pack_floats<Half>(v[i].x[e], v[i + 1].x[e]);
    }
  }
}

// One of the four 16 x 16 products per warp. The two with R go out as operands, A with B stays, and A with K
// meets V at once.
__device__ void multiply_factors(PrepareShared& shared, ChunkData& out) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const bool with_r = warp >= 2, with_k = warp % 2 == 1;  // ab, ak, rb, rk
  const auto& left = with_r ? shared.r : out.w;
  const auto& right = with_k ? shared.k : shared.b;
  const auto word = [](const Half* at) { return *reinterpret_cast<const uint32_t*>(at); };
  float sum[2][4] = {};
#pragma unroll
  for (int step = 0; step < kHeadSize / 16; step++) {
    const int at = step * 16 + 2 * q;
    const uint32_t a0 = word(&left[g][at]), a1 = word(&left[g + 8][at]), a2 = word(&left[g][at + 8]),
                   a3 = word(&left[g + 8][at + 8]);
#pragma unroll
    for (int n = 0; n < 2; n++) {
      matrix_multiply_add<Half>(sum[n], a0, a1, a2, a3, word(&right[n * 8 + g][at]),
                                word(&right[n * 8 + g][at + 8]));
    }
  }
  // Entries outside the triangle are chosen away, never multiplied away: they may be infinite.
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
    auto& to = with_k ? out.m_rk : out.m_rb;
#pragma unroll
    for (int n = 0; n < 2; n++) to[lane][n] = packed[n][0], to[lane][2 + n] = packed[n][1];
    return;
  }
  // An accumulator of one product is the left operand of the next; V lies as its right one.
#pragma unroll
  for (int j = 0; j < kHeadSize / 8; j++) {
    float product[4] = {};
    matrix_multiply_add<Half>(product, packed[0][0], packed[0][1], packed[1][0], packed[1][1],
                              out.v[j / 2][lane][j % 2], out.v[j / 2][lane][j % 2 + 2]);
    float* to = &shared.m_ak_v[g][j * 8 + 2 * q];
    store2(to, product[0], product[1]);
    store2(to + 8 * kHeadSize, product[2], product[3]);
  }
}

// (I - M_ab) x = right side, by forward substitution; thread: one column of W or of U~.
__device__ void solve(const PrepareShared& shared, ChunkData& out) {
  const int c = threadIdx.x % kHeadSize;
  const bool for_u = threadIdx.x >= kHeadSize;
  const auto& right = for_u ? shared.m_ak_v : shared.a_decayed;
  float x[kChunk];
#pragma unroll
  for (int t = 0; t < kChunk; t++) x[t] = right[t][c];
    // x[s] is complete when its turn comes; then all later rows take their share of it.
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
    for (int t = 0; t < kChunk; t++) out.w[t][c] = from_float<Half>(x[t]);
    return;
  }
#pragma unroll
  for (int t = 0; t < kChunk; t += 2) {
    const int lane = c % 8 * 4 + t % 8 / 2, element = t / 8 * 4 + c % 16 / 8 * 2;
    store_pair(&out.u[c / 16][lane][element], x[t], x[t + 1]);
  }
}

template <class T>
__global__ void __launch_bounds__(kPrepareThreads, 7)
    wkv7_chunk_prepare_kernel(Chunks chunks, ChunkInputs in, ChunkData* data) {
  __shared__ PrepareShared shared;
  __shared__ ChunkData out;  // put together here, since its parts are written in no order that memory likes
  let_next_start();
  wait_for_previous();
  const int64_t head = blockIdx.x, chunk = blockIdx.y;
  scale_rows<T>(in, chunks.row[chunk], chunks.rows[chunk], head * kHeadSize, shared, out);
  __syncthreads();
  multiply_factors(shared, out);
  __syncthreads();
  solve(shared, out);
  __syncthreads();
  const auto* from = reinterpret_cast<const uint4*>(&out);
  auto* to = reinterpret_cast<uint4*>(&data[chunk * gridDim.x + head]);
  for (unsigned i = threadIdx.x; i < sizeof(ChunkData) / sizeof(uint4); i += kPrepareThreads) to[i] = from[i];
}

// ---- the walk

constexpr int kWalkWarps = 4;  // value tiles of a block
constexpr int kStages = 3;     // chunks in shared memory

template <class S>
__device__ void load_state(const S* row, float (&s)[8][4], int element) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    const Float4 v = load4(row + 2 * j);
    s[j][element] = v.x[0], s[j][element + 1] = v.x[1];
    s[j + 1][element] = v.x[2], s[j + 1][element + 1] = v.x[3];
  }
}
template <class S>
__device__ void store_state(S* row, const float (&s)[8][4], int element) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    store4(row + 2 * j, Float4{{s[j][element], s[j][element + 1], s[j + 1][element], s[j + 1][element + 1]}});
  }
}

// One chunk: state [16 values, 64 keys] of this warp moves on; y^T [16 values, 16 rows] comes out.
__device__ void walk_chunk(const ChunkData& data, int tile, float (&state)[8][4], float (&y)[2][4]) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const auto four = [](const void* at) { return *reinterpret_cast<const uint4*>(at); };
  uint32_t s[8][2];  // the state as left operand
#pragma unroll
  for (int j = 0; j < 8; j++) {
    s[j][0] = pack_floats<Half>(state[j][0], state[j][1]);
    s[j][1] = pack_floats<Half>(state[j][2], state[j][3]);
  }
  float u[2][4];
  {
    const uint4 packed = four(data.u[tile][lane]);
    Half e[8];
    memcpy(e, &packed, sizeof(e));
#pragma unroll
    for (int i = 0; i < 8; i++) u[i / 4][i % 4] = to_float(e[i]);
  }
#pragma unroll
  for (int n = 0; n < 2; n++) {
    const uint4 w0 = four(&data.w[n * 8 + g][16 * q]), w1 = four(&data.w[n * 8 + g][16 * q + 8]);
    const uint4 r0 = four(&data.r[n * 8 + g][16 * q]), r1 = four(&data.r[n * 8 + g][16 * q + 8]);
    matrix_multiply_add<Half>(u[n], s[0][0], s[0][1], s[1][0], s[1][1], w0.x, w0.y);
    matrix_multiply_add<Half>(u[n], s[2][0], s[2][1], s[3][0], s[3][1], w0.z, w0.w);
    matrix_multiply_add<Half>(u[n], s[4][0], s[4][1], s[5][0], s[5][1], w1.x, w1.y);
    matrix_multiply_add<Half>(u[n], s[6][0], s[6][1], s[7][0], s[7][1], w1.z, w1.w);
    y[n][0] = y[n][1] = y[n][2] = y[n][3] = 0;
    matrix_multiply_add<Half>(y[n], s[0][0], s[0][1], s[1][0], s[1][1], r0.x, r0.y);
    matrix_multiply_add<Half>(y[n], s[2][0], s[2][1], s[3][0], s[3][1], r0.z, r0.w);
    matrix_multiply_add<Half>(y[n], s[4][0], s[4][1], s[5][0], s[5][1], r1.x, r1.y);
    matrix_multiply_add<Half>(y[n], s[6][0], s[6][1], s[7][0], s[7][1], r1.z, r1.w);
  }
  const uint32_t u0 = pack_floats<Half>(u[0][0], u[0][1]), u1 = pack_floats<Half>(u[0][2], u[0][3]),
                 u2 = pack_floats<Half>(u[1][0], u[1][1]), u3 = pack_floats<Half>(u[1][2], u[1][3]);
  const uint4 v = four(data.v[tile][lane]);
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const Float2 decay = load2(&data.decay[16 * q + 2 * j]);
    const uint2 k = *reinterpret_cast<const uint2*>(data.k[j][lane]);
    const uint2 b = *reinterpret_cast<const uint2*>(data.b[j][lane]);
#pragma unroll
    for (int i = 0; i < 4; i++) state[j][i] *= decay.x[i % 2];
    matrix_multiply_add<Half>(state[j], v.x, v.y, v.z, v.w, k.x, k.y);
    matrix_multiply_add<Half>(state[j], u0, u1, u2, u3, b.x, b.y);
  }
  const uint4 rk = four(data.m_rk[lane]), rb = four(data.m_rb[lane]);
  matrix_multiply_add<Half>(y[0], v.x, v.y, v.z, v.w, rk.x, rk.y);
  matrix_multiply_add<Half>(y[1], v.x, v.y, v.z, v.w, rk.z, rk.w);
  matrix_multiply_add<Half>(y[0], u0, u1, u2, u3, rb.x, rb.y);
  matrix_multiply_add<Half>(y[1], u0, u1, u2, u3, rb.z, rb.w);
}

template <class T, class S>
__global__ void __launch_bounds__(kWalkWarps* kWarp)
    wkv7_chunk_walk_kernel(Batch batch, Chunks chunks, const ChunkData* data, int64_t n_head, Slots<S> slots,
                           T* y, int64_t y_stride) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* stages = reinterpret_cast<ChunkData*>(shared);
  let_next_start();
  wait_for_previous();
  constexpr int kParts = kHeadTiles / kWalkWarps;
  const int64_t head = blockIdx.x / kParts, sequence = blockIdx.y;
  const int64_t begin = chunks.begin[sequence], end = chunks.begin[sequence + 1];
  if (begin == end) return;
  const int64_t first_row = batch.start[sequence], last_row = batch.start[sequence + 1];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const int tile = blockIdx.x % kParts * kWalkWarps + warp;

  const auto fetch = [&](int64_t chunk) {
    if (chunk < end) {
      const auto* from = reinterpret_cast<const unsigned char*>(&data[chunk * n_head + head]);
      auto* to = reinterpret_cast<unsigned char*>(&stages[(chunk - begin) % kStages]);
      for (unsigned at = threadIdx.x * 16; at < sizeof(ChunkData); at += kWalkWarps * kWarp * 16) {
        __pipeline_memcpy_async(to + at, from + at, 16);
      }
    }
    __pipeline_commit();  // also when there is nothing: waiting counts commits
  };
#pragma unroll
  for (int stage = 0; stage < kStages - 1; stage++) fetch(begin + stage);

  const int64_t value = head * kHeadSize + tile * 16 + g;  // this lane's first value channel
  S* row = slots[batch.slot[sequence]] + value * kHeadSize + 16 * q;
  float state[8][4];
  load_state(row, state, 0);
  load_state(row + 8 * kHeadSize, state, 2);
  for (int64_t chunk = begin; chunk < end; chunk++) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    fetch(chunk + kStages - 1);  // into the place of the chunk that all have just left
    float out[2][4];
    walk_chunk(stages[(chunk - begin) % kStages], tile, state, out);
    const int64_t first = first_row + (chunk - begin) * kChunk;
    const int64_t rows = min(last_row - first, static_cast<int64_t>(kChunk));
    T* to = y + (first + 2 * q) * y_stride + value;
#pragma unroll
    for (int n = 0; n < 2; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int t = n * 8 + i % 2;
        if (2 * q + t < rows) to[t * y_stride + i / 2 * 8] = from_float<T>(out[n][i]);
      }
    }
  }
  store_state(row, state, 0);
  store_state(row + 8 * kHeadSize, state, 2);
}

template <class T, class S>
void walk_of(const Queue& queue, const Batch& batch, const Chunks& chunks, int64_t n_head, StateField wkv,
             Tensor y, const ChunkData* data) {
  constexpr size_t kShared = kStages * sizeof(ChunkData);
  static const bool allowed = [] {
    allow_shared(wkv7_chunk_walk_kernel<T, S>, kShared);
    return true;
  }();
  FULMAR_CHECK(allowed);
  const dim3 grid(static_cast<unsigned>(n_head * kHeadTiles / kWalkWarps),
                  static_cast<unsigned>(batch.sequences));
  launch(queue, wkv7_chunk_walk_kernel<T, S>, grid, dim3(kWalkWarps * kWarp), kShared, batch, chunks, data,
         n_head, slots_of<S>(wkv), y.as<T>(), y.stride);
}

}  // namespace

size_t wkv7_chunk_workspace(int64_t chunks, int64_t n_head) {
  return static_cast<size_t>(chunks * n_head) * sizeof(ChunkData);
}

void wkv7_chunk(const Queue& queue, const Batch& batch, const Chunks& chunks, int64_t n_head,
                const Projected7& p, StateField wkv, Tensor y, void* workspace) {
  const ChunkInputs in{p.r.data, p.k.data, p.v.data, p.u.data, p.kk.data, p.alpha.data, p.r.stride};
  auto* data = static_cast<ChunkData*>(workspace);
  with_activation(y.dtype, [&](auto sample) {
    using T = decltype(sample);
    // Chunks along y of the grid: at most 65536 rows make 4096 of them and one more per sequence.
    launch(queue, wkv7_chunk_prepare_kernel<T>,
           dim3(static_cast<unsigned>(n_head), static_cast<unsigned>(chunks.count)), dim3(kPrepareThreads), 0,
           chunks, in, data);
    if (wkv.dtype == DType::f32) {
      walk_of<T, float>(queue, batch, chunks, n_head, wkv, y, data);
    } else {
      walk_of<T, Half>(queue, batch, chunks, n_head, wkv, y, data);
    }
  });
}

}  // namespace fulmar::gpu
