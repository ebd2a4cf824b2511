// RWKV-7 at batch 1, between the projections and the output GEMM: second low-rank GEMMs, key preparation,
// recurrence, head norm, bonus and gate in one kernel. One block per head; its weights and state are loaded
// before the previous kernel has finished (PDL).
#include <algorithm>

#include "base/check.h"
#include "gpu/device/fragment.h"
#include "gpu/device/pair.h"
#include "gpu/device/prefetch.h"
#include "gpu/device/ptx.h"
#include "gpu/device/state_rounding.h"
#include "gpu/math/finish7.h"
#include "gpu/math/head_math.h"
#include "gpu/stages/lone_row.h"

namespace fulmar::gpu {

namespace {

// The layer's vectors: low-rank biases, those of the key preparation, head norm and bonus.
enum Vector : int { kW0, kA0, kV0, kKk, kKa, kNormWeight, kNormBias, kRk, kVectors };
constexpr int kAttendPiece = 64;  // K of one piece
constexpr int kAttendPieces = 4;  // per warp
constexpr int kGateShares = 2;    // warps that split K of a tile; 1 for the other paths
constexpr int kProductWarps = kHeadTiles * (kGateShares + kLowRankPaths7 - 1);
constexpr int kAttendThreads = kProductWarps * kWarp;
constexpr int kChannelWarp = kProductWarps - 1;  // does the per-channel work
constexpr int kMostAttendRank = kAttendPieces * kGateShares * kAttendPiece;
constexpr int kStateThreads = kHeadSize * kLanesPerRow;
static_assert(kStateThreads <= kAttendThreads);

template <class T>
struct AttendRowArguments {
  Batch batch;
  unsigned heads;
  bool first_block;
  const T* low[kLowRankPaths7][2];  // [R], and its rounding remainder
  const T* weight[kLowRankPaths7];  // [C, R]
  int rank[kLowRankPaths7];
  const float* vector[kVectors];  // [C]; null: not in this block
  const float *r, *k, *v;
  float* v_first;
  T* v_first_narrow;
  PairPointers<T> y;
  const float* z;  // [C], or null: written to the carried shift
  Slots<float> carry;
};

struct alignas(16) AttendShared {
  float r[kHeadSize], w[kHeadSize], k[kHeadSize], v[kHeadSize], removing[kHeadSize], adding[kHeadSize];
  float product[kLowRankPaths7 + kGateShares - 1][kHeadSize];
  float y[kHeadSize];
  float vector[kVectors][kHeadSize];
  uint4 low[kLowRankPaths7][2][kMostAttendRank / 8];
};

// The tile and path that a warp multiplies, and its first piece.
struct Role {
  int path, tile, share, shares;
};
__device__ Role role_of(int warp) {
  const int group = warp / kHeadTiles;
  if (group < kGateShares) return {kGatePath, warp % kHeadTiles, group, kGateShares};
  return {group - kGateShares, warp % kHeadTiles, 0, 1};
}

// A warp's weights as stored: two rows of outputs, two halves of each piece; zero beyond the rank.
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

template <class T>
__device__ void multiply_pieces(const WeightPieces& weights, const Role& role, int rank,
                                AttendShared& shared) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  float sum[4] = {};
#pragma unroll
  for (int i = 0; i < kAttendPieces; i++) {
    const int piece = role.share + i * role.shares;
    if (piece * kAttendPiece >= rank) break;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      // Column 0 of the product is the vector, column 1 its remainder; the others are ignored.
      const uint4 v = shared.low[role.path][g == 0 ? 0 : 1][piece * 8 + half * 4 + q];
      const uint4 &low = weights.of[i][half], &high = weights.of[i][2 + half];
      mma<T>(sum, low.x, high.x, low.y, high.y, v.x, v.y);
      mma<T>(sum, low.z, high.z, low.w, high.w, v.z, v.w);
    }
  }
  if (q != 0) return;
  float* to = shared.product[role.path + role.share] + role.tile * 16 + g;
  to[0] = sum[0] + sum[1] / kRemainderScale<T>;
  to[8] = sum[2] + sum[3] / kRemainderScale<T>;
}

// Loads the layer's vectors: constant data, which may be loaded before the previous kernel has finished.
// Loaded on use, each would cost a microsecond.
template <class T>
__device__ void bring_vectors(const AttendRowArguments<T>& a, int64_t channel, AttendShared& shared) {
  constexpr int kPiecesOfHead = kHeadSize / 4;
  const int which = threadIdx.x / kPiecesOfHead, c = threadIdx.x % kPiecesOfHead * 4;
  if (which >= kVectors || a.vector[which] == nullptr) return;
  store4(shared.vector[which] + c, load4(a.vector[which] + channel + c));
}

// The channel warp's two channels.
struct Channels {
  Float2 r, k, v, gate;
};

// Applies project7's elementwise tail: from GEMM outputs to the recurrence's inputs.
template <class T>
__device__ Channels prepare(const AttendRowArguments<T>& a, int64_t channel, Channels own,
                            const Float2& v_first, AttendShared& shared) {
  const int c = 2 * (threadIdx.x % kWarp);
  const int64_t at = channel + c;
  const auto product = [&](int i) { return load2(shared.product[i] + c); };
  const Float2 decay = product(kDecayPath), rate_raw = product(kRatePath), share = product(kValuePath),
               g0 = product(kGatePath), g1 = product(kGatePath + 1), w0 = load2(shared.vector[kW0] + c),
               a0 = load2(shared.vector[kA0] + c);
  Float2 rate;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    rate.x[i] = rate_of(rate_raw.x[i], a0.x[i]);
    own.gate.x[i] = g0.x[i] + g1.x[i];
    shared.w[c + i] = __expf(log_decay7(decay_of(decay.x[i], w0.x[i])));
  }
  if (a.first_block) {
    store2(a.v_first + at, own.v.x[0], own.v.x[1]);
    store2(a.v_first_narrow + at, own.v.x[0], own.v.x[1]);
  } else {
    const Float2 v0 = load2(shared.vector[kV0] + c);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      own.v.x[i] = mixed_value(own.v.x[i], v_first.x[i], value_share(share.x[i], v0.x[i]));
    }
  }
  const PreparedKey key = prepare_key(own.k, rate, shared.vector[kKk] + c, shared.vector[kKa] + c);
  own.k = key.k;
  store2(shared.r + c, own.r.x[0], own.r.x[1]);
  store2(shared.k + c, own.k.x[0], own.k.x[1]);
  store2(shared.v + c, own.v.x[0], own.v.x[1]);
  store2(shared.removing + c, -key.kk.x[0], -key.kk.x[1]);
  store2(shared.adding + c, key.kk.x[0] * rate.x[0], key.kk.x[1] * rate.x[1]);
  return own;
}

__device__ __forceinline__ float row_sum(float x) {
#pragma unroll
  for (int offset = kLanesPerRow / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  return x;
}

// Advances one thread's eight keys of one state row.
__device__ void advance(Float4 (&state)[2], AttendShared& shared) {
  const int lane = threadIdx.x % kLanesPerRow, value = threadIdx.x / kLanesPerRow;
  const float v = shared.v[value];
  float removed = 0, out = 0;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const Float4 removing = load4(shared.removing + lane * kKeys + half * 4);
#pragma unroll
    for (int e = 0; e < 4; e++) removed += state[half].x[e] * removing.x[e];
  }
  removed = row_sum(removed);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int j = lane * kKeys + half * 4;
    const Float4 r = load4(shared.r + j), w = load4(shared.w + j), k = load4(shared.k + j),
                 adding = load4(shared.adding + j);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float& cell = state[half].x[e];
      cell = cell * w.x[e] + v * k.x[e] + removed * adding.x[e];
      out += r.x[e] * cell;
    }
  }
  out = row_sum(out);
  if (lane == 0) shared.y[value] = out;
}

template <class T, class S>
__global__ void __launch_bounds__(kAttendThreads)
    attend_row7_kernel(const __grid_constant__ AttendRowArguments<T> a, Slots<S> slots,
                       const __grid_constant__ Prefetch ahead) {
  __shared__ AttendShared shared;
  if (blockIdx.x >= a.heads) {
    pdl_launch_next();
    prefetch_part(ahead, blockIdx.x - a.heads, kPrefetchBlocks);
    return;
  }
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kHeadSize;
  const int warp = threadIdx.x / kWarp, c = 2 * (threadIdx.x % kWarp);
  pdl_launch_next();
  S* own_state = slots[a.batch.slot[0]] + channel * kHeadSize + threadIdx.x * kKeys;
  Float4 state[2];
  if (threadIdx.x < kStateThreads) state[0] = load4(own_state), state[1] = load4(own_state + 4);
  const Role role = role_of(warp);
  const int rank = a.rank[role.path];
  const WeightPieces weights =
      fetch_weights(a.weight[role.path] + (channel + role.tile * 16) * rank, rank, role);
  bring_vectors(a, channel, shared);
  pdl_wait();
  for (int i = threadIdx.x; i < kLowRankPaths7 * 2 * (kMostAttendRank / 8); i += kAttendThreads) {
    const int piece = i % (kMostAttendRank / 8), column = i / (kMostAttendRank / 8) % 2,
              path = i / (kMostAttendRank / 4);
    const auto* from = reinterpret_cast<const uint4*>(a.low[path][column]) + piece;
    shared.low[path][column][piece] = piece * 8 < a.rank[path] ? *from : uint4{};
  }
  Channels own;
  Float2 v_first{};
  if (warp == kChannelWarp) {
    own.r = load2(a.r + channel + c);
    own.k = load2(a.k + channel + c);
    own.v = load2(a.v + channel + c);
    if (!a.first_block) v_first = load2(a.v_first + channel + c);
  }
  __syncthreads();
  multiply_pieces<T>(weights, role, rank, shared);
  __syncthreads();
  if (a.z != nullptr && threadIdx.x < kHeadSize) {
    a.carry[a.batch.slot[0]][channel + threadIdx.x] = a.z[channel + threadIdx.x];
  }
  if (warp == kChannelWarp) own = prepare(a, channel, own, v_first, shared);
  __syncthreads();
  if (threadIdx.x < kStateThreads) {
    advance(state, shared);
    store_state4(own_state, state[0]);
    store_state4(own_state + 4, state[1]);
  }
  __syncthreads();
  if (warp == kChannelWarp) {
    const LeaveWeights leave{shared.vector[kNormWeight], shared.vector[kNormBias], shared.vector[kRk]};
    const Float2 y = leave_head(load2(shared.y + c), own.r, own.k, own.v, own.gate, leave, c);
    store2(a.y, channel + c, y);
  }
}

}  // namespace

bool suits_attend_row7(const TimeMix7& att, bool first_block) {
  const auto fits = [](const LowRank& path, int64_t most) {
    return path.second.plain16() && path.second.in % 8 == 0 && path.second.in <= most &&
           !path.second.by_input();
  };
  constexpr int64_t kOthers = kAttendPieces * kAttendPiece;
  return att.head_size == kHeadSize && fits(att.w, kOthers) && fits(att.a, kOthers) &&
         fits(att.g, kMostAttendRank) && (first_block || fits(att.v, kOthers));
}

void attend_row7(const Queue& queue, const Batch& batch, const AttendRow7& row, const Prefetch& ahead) {
  const auto& [att, first_block, lows, values, wkv, y, norm] = row;
  FULMAR_CHECK(batch.rows == 1 && suits_attend_row7(att, first_block));
  const Pair* low[kLowRankPaths7] = {&lows.w, &lows.a, &lows.v, &lows.g};
  const LowRank* paths[kLowRankPaths7] = {&att.w, &att.a, &att.v, &att.g};
  with_activation(y.high.dtype, [&](auto sample) {
    using T = decltype(sample);
    AttendRowArguments<T> a{};
    a.batch = batch;
    a.heads = static_cast<unsigned>(att.n_head);
    a.first_block = first_block;
    for (int i = 0; i < kLowRankPaths7; i++) {
      if (i == kValuePath && first_block) continue;
      a.low[i][0] = low[i]->high.as<const T>();
      a.low[i][1] = low[i]->remainder.as<const T>();
      a.weight[i] = static_cast<const T*>(paths[i]->second.data);
      a.rank[i] = static_cast<int>(paths[i]->second.in);
    }
    const Tensor vectors[kVectors] = {att.w.bias, att.a.bias,      att.v.bias,    att.k_k,
                                      att.k_a,    att.ln_x.weight, att.ln_x.bias, att.r_k};
    for (int i = 0; i < kVectors; i++) a.vector[i] = vectors[i].as<const float>();
    a.r = values.r.as<float>();
    a.k = values.k.as<float>();
    a.v = values.v.as<float>();
    a.v_first = values.v_first.as<float>();
    a.v_first_narrow = values.v_first_narrow.as<T>();
    a.y = {y.high.as<T>(), y.remainder.as<T>()};
    a.z = norm.z.as<const float>();
    a.carry = slots_of<float>(norm.carry);
    const dim3 grid(a.heads + (ahead.bytes[0] > 0 ? kPrefetchBlocks : 0));
    if (wkv.dtype == DType::f32) {
      launch(queue, attend_row7_kernel<T, float>, grid, dim3(kAttendThreads), 0, a, slots_of<float>(wkv),
             ahead);
    } else {
      launch(queue, attend_row7_kernel<T, Half>, grid, dim3(kAttendThreads), 0, a, slots_of<Half>(wkv),
             ahead);
    }
  });
}

}  // namespace fulmar::gpu
