// Both recurrences token by token. A block of 128 threads owns one head of one sequence: the state stays in
// registers, read and written once whatever the number of rows. Heads other than 64 channels take a plain
// kernel that works in memory.
#include <algorithm>

#include "base/check.h"
#include "gpu/element.h"
#include "gpu/head_math.h"
#include "gpu/kernels.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

namespace {

constexpr int kThreads = 128;
constexpr int kLanesPerRow = 8;                  // threads that share a value channel's row of the state
constexpr int kKeys = kHeadSize / kLanesPerRow;  // key channels per thread
constexpr int kRowGroups = kThreads / kLanesPerRow;
constexpr int kRowsPerThread = kHeadSize / kRowGroups;
// On the GPU that this is tuned for: blocks of wkv_single_kernel on one multiprocessor, and states that each
// has on its way.
constexpr int kMultiprocessors = 132, kSingleBlocksEach = 4, kStatesAhead = 4;

struct WkvInputs {
  const void *r, *k, *v, *u, *kk, *alpha, *g;  // [rows, C]; kk and alpha for RWKV-7 only
  int64_t stride;
  const float* bonus;  // [C], RWKV-6 only
};

// Vectors over the key channels lie in shared memory by halves: first four channels of every lane, then the
// four others, so that lanes meet in no bank.
constexpr int place_of(int lane, int half) { return 4 * lane + 32 * half; }

// Where channel c is there. A lane's halves are neighbours in a row of half states, since it takes 16 bytes.
template <class S>
__device__ constexpr int place_of_channel(int c) {
  return sizeof(S) == 4 ? c : place_of(c / 8, c / 4 % 2) + c % 4;
}

// A thread's part of one state row as it lies in memory.
template <class S>
struct StateRow {
  uint4 v[kKeys * sizeof(S) / sizeof(uint4)];
};
__device__ StateRow<float> fetch_state_row(const float* row, int lane) {
  return {{__ldcs(reinterpret_cast<const uint4*>(row + 4 * lane)),
           __ldcs(reinterpret_cast<const uint4*>(row + 32 + 4 * lane))}};
}
__device__ StateRow<Half> fetch_state_row(const Half* row, int lane) {
  return {{__ldcs(reinterpret_cast<const uint4*>(row + 8 * lane))}};
}
template <class S>
__device__ void widen(const StateRow<S>& row, float (&s)[kKeys]) {
  S e[kKeys];
  memcpy(e, &row, sizeof(e));
#pragma unroll
  for (int i = 0; i < kKeys; i++) s[i] = to_float(e[i]);
}
__device__ void store_state_row(float* row, int lane, const float (&s)[kKeys]) {
  __stcs(reinterpret_cast<float4*>(row + 4 * lane), make_float4(s[0], s[1], s[2], s[3]));
  __stcs(reinterpret_cast<float4*>(row + 32 + 4 * lane), make_float4(s[4], s[5], s[6], s[7]));
}
__device__ void store_state_row(Half* row, int lane, const float (&s)[kKeys]) {
  __stcs(reinterpret_cast<uint4*>(row + 8 * lane),
         make_uint4(pack_floats<Half>(s[0], s[1]), pack_floats<Half>(s[2], s[3]),
                    pack_floats<Half>(s[4], s[5]), pack_floats<Half>(s[6], s[7])));
}

// Sums of four rows over the eight lanes that share them: lane l gets that of row l / 2. Lanes give away half
// of their rows in each of two steps, which takes a third of the exchanges of four separate sums.
static_assert(kRowsPerThread == 4 && kLanesPerRow == 8);
__device__ __forceinline__ float row_sums(const float (&x)[kRowsPerThread], int lane) {
  const bool upper = (lane & 4) != 0, odd = (lane & 2) != 0;
  const float a = (upper ? x[2] : x[0]) + __shfl_xor_sync(kFullWarp, upper ? x[0] : x[2], 4);
  const float b = (upper ? x[3] : x[1]) + __shfl_xor_sync(kFullWarp, upper ? x[1] : x[3], 4);
  const float sum = (odd ? b : a) + __shfl_xor_sync(kFullWarp, odd ? a : b, 2);
  return sum + __shfl_xor_sync(kFullWarp, sum, 1);
}

// The vectors of one token that all threads need, in f32. For RWKV-7: first = -kk, second = kk * alpha; for
// RWKV-6 first = bonus * k.
struct alignas(16) Shared {
  float r[kHeadSize], w[kHeadSize], k[kHeadSize], v[kHeadSize], first[kHeadSize], second[kHeadSize],
      y[kHeadSize];
};

// One thread's numbers of a token: r, u, k of one channel, or v, kk, alpha.
struct TokenPart {
  float x[3];
};
template <int kVersion, class T>
__device__ TokenPart fetch_token(const WkvInputs& in, int64_t at) {
  const int c = threadIdx.x % kHeadSize;
  const auto number = [&](const void* from) { return to_float(static_cast<const T*>(from)[at + c]); };
  if (threadIdx.x < kHeadSize) return {{number(in.r), number(in.u), number(in.k)}};
  if (kVersion == 7) return {{number(in.v), number(in.kk), number(in.alpha)}};
  return {{number(in.v), 0.0f, 0.0f}};
}
template <int kVersion, class S>
__device__ void spread_token(const TokenPart& part, const float* bonus, int64_t channel, Shared& shared) {
  const int c = threadIdx.x % kHeadSize, at = place_of_channel<S>(c);
  if (threadIdx.x < kHeadSize) {
    const float u = part.x[1];
    shared.r[at] = part.x[0];
    shared.w[at] = kVersion == 7 ? __expf(-kDecayScale * sigmoid(u)) : __expf(-__expf(u));
    shared.k[at] = part.x[2];
    if (kVersion == 6) shared.first[at] = bonus[channel + c] * part.x[2];
  } else {
    shared.v[c] = part.x[0];
    if (kVersion == 7) {
      shared.first[at] = -part.x[1];
      shared.second[at] = part.x[1] * part.x[2];
    }
  }
}

// The vectors are read from shared memory where they are used: registers are for the state, and few of them
// let more blocks have their states on the way.
template <int kVersion>
__device__ void advance(float (&state)[kRowsPerThread][kKeys], Shared& shared) {
  const int lane = threadIdx.x % kLanesPerRow, group = threadIdx.x / kLanesPerRow;
  const Float4 v = load4(shared.v + group * kRowsPerThread);
  float removed[kRowsPerThread] = {}, out[kRowsPerThread] = {};
  if (kVersion == 7) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const Float4 first = load4(shared.first + place_of(lane, half));
#pragma unroll
      for (int p = 0; p < kRowsPerThread; p++) {
#pragma unroll
        for (int e = 0; e < 4; e++) removed[p] += state[p][4 * half + e] * first.x[e];
      }
    }
    const float sum = row_sums(removed, lane);
#pragma unroll
    for (int p = 0; p < kRowsPerThread; p++) {
      removed[p] = __shfl_sync(kFullWarp, sum, 2 * p, kLanesPerRow);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int j = place_of(lane, half);
    const Float4 r = load4(shared.r + j), w = load4(shared.w + j), k = load4(shared.k + j);
    const Float4 other = kVersion == 7 ? load4(shared.second + j) : load4(shared.first + j);
#pragma unroll
    for (int p = 0; p < kRowsPerThread; p++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float& cell = state[p][4 * half + e];
        if (kVersion == 6) out[p] += r.x[e] * (cell + other.x[e] * v.x[p]);
        cell = cell * w.x[e] + v.x[p] * k.x[e] + (kVersion == 7 ? removed[p] * other.x[e] : 0.0f);
        if (kVersion == 7) out[p] += r.x[e] * cell;
      }
    }
  }
  const float sum = row_sums(out, lane);
  if (lane % 2 == 0) shared.y[group * kRowsPerThread + lane / 2] = sum;
}

template <int kVersion, class T, class S>
__device__ void write_output(const LeaveWeights& leave, bool leaves, const Float2& gate, int64_t channel,
                             const Shared& shared, T* y) {
  if (threadIdx.x >= kWarp) return;
  const int c = 2 * threadIdx.x;
  Float2 out = load2(shared.y + c);
  if (leaves) {
    const Float2 rounded = {{to_float(from_float<T>(out.x[0])), to_float(from_float<T>(out.x[1]))}};
    const int at = place_of_channel<S>(c);
    out = kVersion == 6 ? leave_head(rounded, gate, leave, channel + c)
                        : leave_head(rounded, load2(shared.r + at), load2(shared.k + at), load2(shared.v + c),
                                     gate, leave, channel + c);
  }
  store2(y + c, out.x[0], out.x[1]);
}

template <int kVersion, class T, class S>
__global__ void __launch_bounds__(kThreads)
    wkv_kernel(Batch batch, WkvInputs in, LeaveWeights leave, bool leaves, Slots<S> slots, T* y,
               int64_t y_stride, int64_t longest) {
  __shared__ Shared shared;
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channel = head * kHeadSize;
  const int64_t begin = batch.start[sequence], end = batch.start[sequence + 1];
  let_next_start();
  if (end - begin > longest) {
    wait_for_previous();  // or the next kernel could start before the one before this has finished
    return;
  }
  const int lane = threadIdx.x % kLanesPerRow, group = threadIdx.x / kLanesPerRow;
  S* own = slots[batch.slot[sequence]] + channel * kHeadSize;
  float state[kRowsPerThread][kKeys];
#pragma unroll
  for (int p = 0; p < kRowsPerThread; p++) {
    widen(fetch_state_row(own + (group * kRowsPerThread + p) * kHeadSize, lane), state[p]);
  }
  wait_for_previous();
  for (int64_t t = begin; t < end; t++) {
    const int64_t at = t * in.stride + channel;
    __syncthreads();
    spread_token<kVersion, S>(fetch_token<kVersion, T>(in, at), in.bonus, channel, shared);
    __syncthreads();
    advance<kVersion>(state, shared);
    __syncthreads();
    Float2 gate{};
    if (leaves && threadIdx.x < kWarp) gate = load2(static_cast<const T*>(in.g) + at + 2 * threadIdx.x);
    write_output<kVersion, T, S>(leave, leaves, gate, channel, shared, y + t * y_stride + channel);
  }
#pragma unroll
  for (int p = 0; p < kRowsPerThread; p++) {
    store_state_row(own + (group * kRowsPerThread + p) * kHeadSize, lane, state[p]);
  }
}

// A token's vectors as they come, in the order in which WkvInputs names them.
enum TokenVector : int { kR, kK, kV, kU, kKk, kAlpha, kGate, kTokenVectors };
constexpr int kTokenPieces = kHeadSize / 8;  // of 16 bytes in a vector
static_assert(kTokenVectors * kTokenPieces <= kThreads);

template <class T>
using RawToken = T[kTokenVectors][kHeadSize];

// Which vector a thread brings its piece of; null: none.
template <class T>
__device__ const T* piece_to_bring(const WkvInputs& in) {
  const void* const all[kTokenVectors] = {in.r, in.k, in.v, in.u, in.kk, in.alpha, in.g};
  const T* mine = nullptr;
#pragma unroll
  for (int i = 0; i < kTokenVectors; i++) {
    if (static_cast<int>(threadIdx.x) / kTokenPieces == i) mine = static_cast<const T*>(all[i]);
  }
  return mine == nullptr ? nullptr : mine + threadIdx.x % kTokenPieces * 8;
}

template <int kVersion, class T>
__device__ TokenPart part_of(const RawToken<T>& raw) {
  const int c = threadIdx.x % kHeadSize;
  const auto number = [&](int vector) { return to_float(raw[vector][c]); };
  if (threadIdx.x < kHeadSize) return {{number(kR), number(kU), number(kK)}};
  if (kVersion == 7) return {{number(kV), number(kKk), number(kAlpha)}};
  return {{number(kV), 0.0f, 0.0f}};
}

// Every sequence has one row and states are small: blocks go from state to state and have the next ones on
// their way through shared memory while they work on one, tokens included: either comes late when all blocks
// keep the memory busy. Of a state a thread fetches what it will read itself; tokens are waited for one state
// earlier, so that the barrier of that one makes them known to all.
template <int kVersion, class T, class S>
__global__ void __launch_bounds__(kThreads, kSingleBlocksEach)
    wkv_single_kernel(Batch batch, int64_t n_head, WkvInputs in, LeaveWeights leave, bool leaves,
                      Slots<S> slots, T* y, int64_t y_stride) {
  static_assert(sizeof(StateRow<S>) == sizeof(uint4) && kStatesAhead >= 2);
  __shared__ uint4 coming[kStatesAhead][kRowsPerThread][kThreads];
  __shared__ __align__(16) RawToken<T> tokens[kStatesAhead];
  __shared__ Shared both[2];  // by turns: the output of one state is written while the next one begins
  const int lane = threadIdx.x % kLanesPerRow, group = threadIdx.x / kLanesPerRow;
  const int64_t channel = blockIdx.x % n_head * kHeadSize, step = gridDim.x / n_head;
  const auto state_of = [&](int64_t sequence) {
    return slots[batch.slot[sequence]] + (channel + group * kRowsPerThread) * kHeadSize;
  };
  const auto fetch_state = [&](int64_t sequence, int place) {
    if (sequence >= batch.sequences) return;
    const S* from = state_of(sequence) + lane * kKeys;
#pragma unroll
    for (int p = 0; p < kRowsPerThread; p++) {
      __pipeline_memcpy_async(&coming[place][p][threadIdx.x], from + p * kHeadSize, 16);
    }
  };
  const T* piece = piece_to_bring<T>(in);
  T* const piece_place = &tokens[0][0][0] + threadIdx.x * 8;
  const auto fetch_token = [&](int64_t sequence, int place) {
    if (sequence < batch.sequences && piece != nullptr) {
      __pipeline_memcpy_async(piece_place + place * kTokenVectors * kHeadSize,
                              piece + sequence * in.stride + channel, 16);
    }
    __pipeline_commit();  // also when there is nothing: waiting counts commits
  };
  int64_t sequence = blockIdx.x / n_head;
  let_next_start();
#pragma unroll
  for (int place = 0; place < kStatesAhead; place++) fetch_state(sequence + place * step, place);
  wait_for_previous();
#pragma unroll
  for (int place = 0; place < kStatesAhead; place++) fetch_token(sequence + place * step, place);
  __pipeline_wait_prior(kStatesAhead - 1);
  __syncthreads();
  int place = 0;
  for (int turn = 0; sequence < batch.sequences; sequence += step, turn ^= 1) {
    Shared& shared = both[turn];
    spread_token<kVersion, S>(part_of<kVersion, T>(tokens[place]), in.bonus, channel, shared);
    Float2 gate{};
    if (leaves && threadIdx.x < kWarp) gate = load2(&tokens[place][kGate][2 * threadIdx.x]);
    __pipeline_wait_prior(kStatesAhead - 2);
    float state[kRowsPerThread][kKeys];
#pragma unroll
    for (int p = 0; p < kRowsPerThread; p++) {
      widen(StateRow<S>{{coming[place][p][threadIdx.x]}}, state[p]);
    }
    __syncthreads();
    fetch_state(sequence + kStatesAhead * step, place);
    fetch_token(sequence + kStatesAhead * step, place);
    place = place + 1 == kStatesAhead ? 0 : place + 1;
    advance<kVersion>(state, shared);
    S* own = state_of(sequence);
#pragma unroll
    for (int p = 0; p < kRowsPerThread; p++) store_state_row(own + p * kHeadSize, lane, state[p]);
    __syncthreads();
    write_output<kVersion, T, S>(leave, leaves, gate, channel, shared, y + sequence * y_stride + channel);
  }
}

// Any head size: one thread per value channel, the state in memory.
template <int kVersion, class T, class S>
__global__ void wkv_plain_kernel(Batch batch, WkvInputs in, Slots<S> slots, T* y, int64_t y_stride,
                                 int64_t n) {
  extern __shared__ float vectors[];  // r, w, k, first, second: [5, n]
  float *r = vectors, *w = r + n, *k = w + n, *first = k + n, *second = first + n;
  let_next_start();
  wait_for_previous();
  const int64_t sequence = blockIdx.y, channel = blockIdx.x * n, i = threadIdx.x;
  S* row = slots[batch.slot[sequence]] + (channel + i) * n;
  for (int64_t t = batch.start[sequence]; t < batch.start[sequence + 1]; t++) {
    const int64_t at = t * in.stride + channel + i;
    const auto number = [&](const void* from) { return to_float(static_cast<const T*>(from)[at]); };
    const float u = number(in.u), v = number(in.v);
    __syncthreads();
    r[i] = number(in.r);
    k[i] = number(in.k);
    w[i] = kVersion == 7 ? expf(-kDecayScale * sigmoid(u)) : expf(-expf(u));
    first[i] = kVersion == 7 ? -number(in.kk) : in.bonus[channel + i] * k[i];
    second[i] = kVersion == 7 ? number(in.kk) * number(in.alpha) : 0.0f;
    __syncthreads();
    float removed = 0, out = 0;
    for (int64_t j = 0; kVersion == 7 && j < n; j++) removed += to_float(row[j]) * first[j];
    for (int64_t j = 0; j < n; j++) {
      const float old = to_float(row[j]), moved = old * w[j] + removed * second[j] + v * k[j];
      out += r[j] * (kVersion == 7 ? moved : old + first[j] * v);
      row[j] = from_float<S>(moved);
    }
    y[t * y_stride + channel + i] = from_float<T>(out);
  }
}

template <int kVersion, class T, class S>
void wkv_of(const Queue& queue, const Batch& batch, int64_t n_head, int64_t head_size, const WkvInputs& in,
            StateField wkv, Tensor y, int64_t longest, const LeaveWeights& leave, bool leaves) {
  const dim3 grid(static_cast<unsigned>(n_head), static_cast<unsigned>(batch.sequences));
  const auto slots = slots_of<S>(wkv);
  if (head_size == kHeadSize) {
    // f32 states are large enough to keep the memory busy one by one: measured 6 % quicker that way.
    if constexpr (sizeof(S) == 2) {
      if (batch.decode_only()) {
        // Whole multiples of the heads, so that a block stays with one head.
        const int64_t together = std::max<int64_t>(1, kMultiprocessors * kSingleBlocksEach / n_head);
        const int64_t blocks = n_head * std::min<int64_t>(batch.sequences, together);
        launch(queue, wkv_single_kernel<kVersion, T, S>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
               0, batch, n_head, in, leave, leaves, slots, y.as<T>(), y.stride);
        return;
      }
    }
    launch(queue, wkv_kernel<kVersion, T, S>, grid, dim3(kThreads), 0, batch, in, leave, leaves, slots,
           y.as<T>(), y.stride, longest);
    return;
  }
  FULMAR_CHECK(head_size <= 1024 && !leaves && longest == INT64_MAX);
  launch(queue, wkv_plain_kernel<kVersion, T, S>, grid, dim3(static_cast<unsigned>(head_size)),
         static_cast<size_t>(5 * head_size) * sizeof(float), batch, in, slots, y.as<T>(), y.stride,
         head_size);
}

template <int kVersion>
void wkv(const Queue& queue, const Batch& batch, int64_t n_head, int64_t head_size, const WkvInputs& in,
         StateField state, Tensor y, int64_t longest, const LeaveWeights& leave, bool leaves) {
  with_activation(y.dtype, [&](auto sample) {
    using T = decltype(sample);
    if (state.dtype == DType::f32) {
      wkv_of<kVersion, T, float>(queue, batch, n_head, head_size, in, state, y, longest, leave, leaves);
    } else {
      wkv_of<kVersion, T, Half>(queue, batch, n_head, head_size, in, state, y, longest, leave, leaves);
    }
  });
}

}  // namespace

void wkv7(const Queue& queue, const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
          Tensor y, int64_t longest, bool leaves) {
  const WkvInputs in{p.r.data,     p.k.data, p.v.data,   p.u.data, p.kk.data,
                     p.alpha.data, p.g.data, p.r.stride, nullptr};
  wkv<7>(queue, batch, att.n_head, att.head_size, in, state, y, longest, leave_weights(att), leaves);
}

void wkv6(const Queue& queue, const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
          Tensor y, int64_t longest, bool leaves) {
  const WkvInputs in{p.r.data, p.k.data, p.v.data,   p.u.data,         nullptr,
                     nullptr,  p.g.data, p.r.stride, att.u.as<float>()};
  wkv<6>(queue, batch, att.n_head, att.head_size, in, state, y, longest, leave_weights(att), leaves);
}

}  // namespace fulmar::gpu
