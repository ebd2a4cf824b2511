// One token of either recurrence on one head of 64 channels, by threads that hold the state in registers,
// eight for each of its rows; shared by kernels that differ in where states and tokens come from. Most of
// them have blocks of 128 threads with four rows each.
#pragma once

#include "gpu/device/element.h"
#include "gpu/device/state_rounding.h"
#include "gpu/math/finish7.h"
#include "gpu/math/head_math.h"
#include "gpu/recurrence/recurrence.h"

namespace fulmar::gpu {

constexpr int kWkvThreads = 128;
constexpr int kRowGroups = kWkvThreads / kLanesPerRow;
constexpr int kRowsPerThread = kHeadSize / kRowGroups;
constexpr int kOutputWarp = 2;  // writes the outputs; the two warps before it compute the decays

// Returns whether a recurrence removes from the state what a key held before it adds (the delta rule):
// RWKV-7's does, RWKV-6's only adds.
constexpr bool removes(int version) { return version == 7; }
template <int kVersion>
constexpr bool kRemoves = removes(kVersion);

struct WkvInputs {
  const void *r, *k, *v, *u, *kk, *alpha, *g;  // [rows, C]; kk and alpha for RWKV-7 only
  int64_t stride;
  const float* bonus;  // [C], RWKV-6 only
};

// The heads of one block's recurrence.
struct WkvHeads {
  int version = 0;  // 6 or 7
  int64_t count = 0, size = 0;
  WkvInputs in;
  LeaveWeights leave;
};

// Launches wkv_single.cu: steps of one row per sequence, f16 states, heads of 64 channels.
void wkv_single(const Queue&, const Batch&, const WkvHeads&, const Recurrence&);

// Launches wkv_deferred.cu: deferred writes by batch.ring (replay, append, write); heads of 64 channels.
void wkv_deferred(const Queue&, const Batch&, const WkvHeads&, const Recurrence&);
// Returns whether `heads` (of all sequences) are few enough for wkv_few.cu; wkv_few launches it.
bool suits_wkv_few(int64_t heads, int multiprocessors);
void wkv_few(const Queue&, const Batch&, const WkvHeads&, const Recurrence&);

// Returns where four of a lane's channels lie in a vector over key channels in shared memory: first four
// channels of every lane, then the other four, which avoids bank conflicts.
constexpr int place_of(int lane, int half) { return 4 * lane + 32 * half; }

// Returns where channel c is. With f16 states a lane's two halves are adjacent in a row of the state, which
// it loads as 16 bytes.
template <class S>
__device__ constexpr int place_of_channel(int c) {
  return sizeof(S) == 4 ? c : place_of(c / 8, c / 4 % 2) + c % 4;
}

// A thread's part of one state row, as stored.
template <class S>
struct StateRow {
  uint4 v[kKeys * sizeof(S) / sizeof(uint4)];
};
__device__ inline StateRow<float> fetch_state_row(const float* row, int lane) {
  return {{__ldcs(reinterpret_cast<const uint4*>(row + 4 * lane)),
           __ldcs(reinterpret_cast<const uint4*>(row + 32 + 4 * lane))}};
}
__device__ inline StateRow<Half> fetch_state_row(const Half* row, int lane) {
  return {{__ldcs(reinterpret_cast<const uint4*>(row + 8 * lane))}};
}
template <class S>
__device__ void widen(const StateRow<S>& row, float (&s)[kKeys]) {
  S e[kKeys];
  memcpy(e, &row, sizeof(e));
#pragma unroll
  for (int i = 0; i < kKeys; i++) s[i] = to_float(e[i]);
}
__device__ inline void store_state_row(float* row, int lane, const float (&s)[kKeys]) {
  __stcs(reinterpret_cast<float4*>(row + 4 * lane), make_float4(s[0], s[1], s[2], s[3]));
  __stcs(reinterpret_cast<float4*>(row + 32 + 4 * lane), make_float4(s[4], s[5], s[6], s[7]));
}
__device__ inline uint4 pack_state_row(const float (&s)[kKeys]) {
  return make_uint4(pack_state_pair(s[0], s[1]), pack_state_pair(s[2], s[3]), pack_state_pair(s[4], s[5]),
                    pack_state_pair(s[6], s[7]));
}
__device__ inline void store_state_row(Half* row, int lane, const float (&s)[kKeys]) {
  __stcs(reinterpret_cast<uint4*>(row + 8 * lane), pack_state_row(s));
}

// Sums four rows over the eight lanes that share them; lane l gets the sum of row l / 2. In each of two steps
// a lane hands half of its rows to its partner, so this takes a third of the shuffles of four separate sums.
static_assert(kRowsPerThread == 4 && kLanesPerRow == 8);
__device__ __forceinline__ float row_sums(const float (&x)[kRowsPerThread], int lane) {
  const bool upper = (lane & 4) != 0, odd = (lane & 2) != 0;
  const float a = (upper ? x[2] : x[0]) + __shfl_xor_sync(kFullWarp, upper ? x[0] : x[2], 4);
  const float b = (upper ? x[3] : x[1]) + __shfl_xor_sync(kFullWarp, upper ? x[1] : x[3], 4);
  const float sum = (odd ? b : a) + __shfl_xor_sync(kFullWarp, odd ? a : b, 2);
  return sum + __shfl_xor_sync(kFullWarp, sum, 1);
}
// Does the same for one row, in the same order; every lane gets the sum.
__device__ __forceinline__ float row_sums(const float (&x)[1], int) {
  float sum = x[0];
#pragma unroll
  for (int offset = kLanesPerRow / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
  return sum;
}

// Loads one number for each of a thread's state rows.
__device__ __forceinline__ Float4 load_rows(const float* p, const float (&)[4][kKeys]) { return load4(p); }
__device__ __forceinline__ Float4 load_rows(const float* p, const float (&)[1][kKeys]) { return {{*p}}; }

// The vectors of one token that all threads need, in f32. RWKV-7: first = -kk, second = kk * alpha; RWKV-6:
// first = bonus * k.
struct alignas(16) SpreadToken {
  float r[kHeadSize], w[kHeadSize], k[kHeadSize], v[kHeadSize], first[kHeadSize], second[kHeadSize],
      y[kHeadSize];
};

// One thread's numbers of a token that 128 threads load: r, u, k of one channel, or v, kk, alpha.
struct TokenPart {
  float x[3];
};
template <int kGroups>  // groups of 128 threads in a block
__device__ __forceinline__ unsigned thread_of_group() {
  return kGroups == 1 ? threadIdx.x : threadIdx.x % kWkvThreads;
}
template <int kVersion, class T, int kGroups = 1>
__device__ TokenPart fetch_token(const WkvInputs& in, int64_t at) {
  const int c = threadIdx.x % kHeadSize;
  const auto number = [&](const void* from) { return to_float(static_cast<const T*>(from)[at + c]); };
  if (thread_of_group<kGroups>() < kHeadSize) return {{number(in.r), number(in.u), number(in.k)}};
  if (kRemoves<kVersion>) return {{number(in.v), number(in.kk), number(in.alpha)}};
  return {{number(in.v), 0.0f, 0.0f}};
}
// Returns w from the u of project7 or project6.
template <int kVersion>
__device__ __forceinline__ float decay(float u) {
  return kRemoves<kVersion> ? __expf(log_decay7(u)) : __expf(-__expf(u));
}
template <int kVersion, class S, int kGroups = 1>
__device__ void spread_token(const TokenPart& part, const float* bonus, int64_t channel,
                             SpreadToken& shared) {
  const int c = threadIdx.x % kHeadSize, at = place_of_channel<S>(c);
  if (thread_of_group<kGroups>() < kHeadSize) {
    shared.r[at] = part.x[0];
    shared.w[at] = decay<kVersion>(part.x[1]);
    shared.k[at] = part.x[2];
    if (!kRemoves<kVersion>) shared.first[at] = bonus[channel + c] * part.x[2];
  } else {
    shared.v[c] = part.x[0];
    if (kRemoves<kVersion>) {
      shared.first[at] = -part.x[1];
      shared.second[at] = part.x[1] * part.x[2];
    }
  }
}

// Updates one number of the state by a token. Every kernel uses this order of operations, so that a replay
// gives the same bits (wkv_deferred.h).
template <int kVersion>
__device__ __forceinline__ float moved(float cell, float w, float v, float k, float removed, float second) {
  const float kept = __fmaf_rn(cell, w, __fmul_rn(v, k));
  return kRemoves<kVersion> ? __fmaf_rn(removed, second, kept) : kept;
}

// Advances the state by one token. Vectors are read from shared memory where they are used: with fewer
// registers more blocks have states in flight. `removed`: S·(-kk) of the thread's rows, RWKV-7 only.
template <int kVersion, int kRows>
__device__ void update_state(float (&state)[kRows][kKeys], SpreadToken& shared, float (&removed)[kRows]) {
  const int lane = threadIdx.x % kLanesPerRow, group = threadIdx.x / kLanesPerRow;
  const Float4 v = load_rows(shared.v + group * kRows, state);
  float out[kRows] = {};
#pragma unroll
  for (float& sum : removed) sum = 0.0f;
  if (kRemoves<kVersion>) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const Float4 first = load4(shared.first + place_of(lane, half));
#pragma unroll
      for (int p = 0; p < kRows; p++) {
#pragma unroll
        for (int e = 0; e < 4; e++) removed[p] += state[p][4 * half + e] * first.x[e];
      }
    }
    const float sum = row_sums(removed, lane);
    removed[0] = sum;
#pragma unroll
    for (int p = 0; p < kRows && kRows > 1; p++) {
      removed[p] = __shfl_sync(kFullWarp, sum, p * kLanesPerRow / kRows, kLanesPerRow);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int j = place_of(lane, half);
    const Float4 r = load4(shared.r + j), w = load4(shared.w + j), k = load4(shared.k + j);
    const Float4 other = kRemoves<kVersion> ? load4(shared.second + j) : load4(shared.first + j);
#pragma unroll
    for (int p = 0; p < kRows; p++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float& cell = state[p][4 * half + e];
        if (!kRemoves<kVersion>) out[p] += r.x[e] * (cell + other.x[e] * v.x[p]);
        cell = moved<kVersion>(cell, w.x[e], v.x[p], k.x[e], removed[p], other.x[e]);
        if (kRemoves<kVersion>) out[p] += r.x[e] * cell;
      }
    }
  }
  const float sum = row_sums(out, lane);
  constexpr int kLanesOfSum = kLanesPerRow / kRows;
  if (lane % kLanesOfSum == 0) shared.y[group * kRows + lane / kLanesOfSum] = sum;
}

template <int kVersion, int kRows>
__device__ void update_state(float (&state)[kRows][kKeys], SpreadToken& shared) {
  float removed[kRows];
  update_state<kVersion>(state, shared, removed);
}

__device__ __forceinline__ bool writes_output() { return threadIdx.x / kWarp == kOutputWarp; }
// Returns the first of the two channels that a thread of kOutputWarp writes.
__device__ __forceinline__ int output_channel() { return 2 * (threadIdx.x % kWarp); }
// Writes a token's output, by one warp; y: the head's.
template <int kVersion, class T, class S>
__device__ void write_head(const LeaveWeights& leave, bool leaves, const Float2& gate, int64_t channel,
                           const SpreadToken& shared, T* y) {
  const int c = output_channel();
  Float2 out = load2(shared.y + c);
  if (leaves) {
    const Float2 rounded = {{to_float(from_float<T>(out.x[0])), to_float(from_float<T>(out.x[1]))}};
    const int at = place_of_channel<S>(c);
    out = kRemoves<kVersion> ? leave_head(rounded, load2(shared.r + at), load2(shared.k + at),
                                          load2(shared.v + c), gate, leave, channel + c)
                             : leave_head(rounded, gate, leave, channel + c);
  }
  store2(y + c, out.x[0], out.x[1]);
}
template <int kVersion, class T, class S>
__device__ void write_output(const LeaveWeights& leave, bool leaves, const Float2& gate, int64_t channel,
                             const SpreadToken& shared, T* y) {
  if (writes_output()) write_head<kVersion, T, S>(leave, leaves, gate, channel, shared, y);
}

}  // namespace fulmar::gpu
