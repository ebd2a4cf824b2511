// Pending rows of a ring (ops/ring.h) on one head of 64 channels: their layout in global memory, loading them
// into shared memory as f32, and replaying them onto the state in registers.
#pragma once

#include "gpu/recurrence/wkv_head.h"

namespace fulmar::gpu {

// A layer's rings, for kernels.
struct Rings {
  std::byte* base;
  size_t slot_stride, head_stride, row_stride;  // bytes
  int rows, every;

  __device__ std::byte* head(int64_t slot, int64_t index) const {
    return base + static_cast<size_t>(slot) * slot_stride + static_cast<size_t>(index) * head_stride;
  }
  __device__ std::byte* row(std::byte* head, int index) const {
    return head + static_cast<size_t>(index % rows) * row_stride;
  }
};
inline Rings rings_of(const RingField& ring) {
  return {ring.base,
          ring.slot_stride,
          ring.head_stride,
          ring.row_stride,
          static_cast<int>(ring.layout.rows),
          static_cast<int>(ring.layout.write_every)};
}

// Returns a sequence's ring action by one 32-bit load: a step's actions are packed among its index arrays.
__device__ __forceinline__ RingStep ring_step_of(const Batch& batch, int64_t sequence) {
  const uint32_t word = reinterpret_cast<const uint32_t*>(batch.ring)[sequence];
  RingStep step;
  static_assert(sizeof(step) == sizeof(word));
  memcpy(&step, &word, sizeof(step));
  return step;
}

// Vectors of a row in the ring, [64] of the activation type; RWKV-6 has the first three. RWKV-7's are
// followed by S·(-kk) (`removed`), [64] in f32.
enum KeptVector : int { kKeptK, kKeptV, kKeptU, kKeptKk, kKeptAlpha, kKeptVectors };
template <class T>
__device__ T* kept_vector(std::byte* row, int which) {
  return reinterpret_cast<T*>(row) + which * kHeadSize;
}
template <class T>
__device__ float* kept_removed(std::byte* row) {
  return reinterpret_cast<float*>(kept_vector<T>(row, kKeptVectors));
}

// A row being replayed. Vectors over key channels are laid out as a token's (wkv_head.h).
struct alignas(16) ReplayedRow {
  float w[kHeadSize], k[kHeadSize], v[kHeadSize], second[kHeadSize], removed[kHeadSize];
};

// Loads the rows row_of(0) to row_of(held - 1) into shared memory, with kGroups times 128 threads; a barrier
// has to follow before they are read.
template <int kVersion, class T, class S, int kGroups = 1, class RowOf>
__device__ void stage_rows(const RowOf& row_of, int held_rows, ReplayedRow* target) {
  constexpr int kTogether = 4;  // rows whose loads are in flight at once
  const int c = threadIdx.x % kHeadSize, at = place_of_channel<S>(c);
  // These threads load k, w and `removed`, the others v and second.
  const bool keys = thread_of_group<kGroups>() < kHeadSize;
  const int group = kGroups == 1 ? 0 : threadIdx.x / kWkvThreads;
  const int held = (held_rows - group + kGroups - 1) / kGroups;
  for (int begin = 0; begin < held; begin += kTogether) {
    T a[kTogether], b[kTogether], alpha[kTogether];
    float removed[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; i++) {
      if (begin + i >= held) break;
      std::byte* row = row_of(group + (begin + i) * kGroups);
      a[i] = kept_vector<T>(row, keys ? kKeptK : kKeptV)[c];
      if (keys || kRemoves<kVersion>) b[i] = kept_vector<T>(row, keys ? kKeptU : kKeptKk)[c];
      if (!keys && kRemoves<kVersion>) alpha[i] = kept_vector<T>(row, kKeptAlpha)[c];
      if (keys && kRemoves<kVersion>) removed[i] = kept_removed<T>(row)[c];
    }
#pragma unroll
    for (int i = 0; i < kTogether; i++) {
      if (begin + i >= held) break;
      ReplayedRow& row = target[group + (begin + i) * kGroups];
      if (keys) {
        row.k[at] = to_float(a[i]);
        row.w[at] = decay<kVersion>(to_float(b[i]));
        if (kRemoves<kVersion>) row.removed[c] = removed[i];
      } else {
        row.v[c] = to_float(a[i]);
        if (kRemoves<kVersion>) row.second[at] = to_float(b[i]) * to_float(alpha[i]);
      }
    }
  }
}

template <int kVersion, int kRows>
__device__ __forceinline__ void replay(float (&state)[kRows][kKeys], const ReplayedRow& row) {
  const int lane = threadIdx.x % kLanesPerRow, group = threadIdx.x / kLanesPerRow;
  const Float4 v = load_rows(row.v + group * kRows, state);
  Float4 removed{};
  if (kRemoves<kVersion>) removed = load_rows(row.removed + group * kRows, state);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int j = place_of(lane, half);
    const Float4 w = load4(row.w + j), k = load4(row.k + j);
    Float4 second{};
    if (kRemoves<kVersion>) second = load4(row.second + j);
#pragma unroll
    for (int p = 0; p < kRows; p++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float& cell = state[p][4 * half + e];
        cell = moved<kVersion>(cell, w.x[e], v.x[p], k.x[e], removed.x[p], second.x[e]);
      }
    }
  }
}

template <class S, int kRows>
__device__ __forceinline__ void round_state(float (&state)[kRows][kKeys]) {
  if constexpr (sizeof(S) == sizeof(Half)) {
#pragma unroll
    for (auto& row : state) widen(StateRow<S>{{pack_state_row(row)}}, row);
  }
}

template <class S, int kRows>
__device__ void store_state(S* own, const float (&state)[kRows][kKeys]) {
  const int lane = threadIdx.x % kLanesPerRow, group = threadIdx.x / kLanesPerRow;
#pragma unroll
  for (int p = 0; p < kRows; p++) {
    store_state_row(own + (group * kRows + p) * kHeadSize, lane, state[p]);
  }
}

// Replays rows from shared memory; f16 states are rounded after every M-th row, as if they were written
// there. The state is stored to `own` after `write_at` of them; 0: not at all.
template <int kVersion, class S, int kRows>
__device__ void replay_rows(float (&state)[kRows][kKeys], const ReplayedRow* rows, int held, int every,
                            int write_at, S* own) {
  for (int i = 0, remaining = every; i < held; i++) {
    replay<kVersion>(state, rows[i]);
    if (--remaining == 0) round_state<S>(state), remaining = every;
    if (i + 1 == write_at) store_state(own, state);
  }
}

// Appends a token to the ring: its inputs, as fetch_token loads them, and its `removed`.
template <int kVersion, class T, int kGroups = 1>
__device__ void keep_token(const TokenPart& part, std::byte* row) {
  const int c = threadIdx.x % kHeadSize;
  const auto keep = [&](int which, float x) { kept_vector<T>(row, which)[c] = from_float<T>(x); };
  if (thread_of_group<kGroups>() < kHeadSize) {
    keep(kKeptU, part.x[1]);
    keep(kKeptK, part.x[2]);
    return;
  }
  keep(kKeptV, part.x[0]);
  if (kRemoves<kVersion>) {
    keep(kKeptKk, part.x[1]);
    keep(kKeptAlpha, part.x[2]);
  }
}
template <int kVersion, class T, int kRows>
__device__ void keep_removed(const float (&removed)[kRows], std::byte* row) {
  if (!kRemoves<kVersion> || threadIdx.x % kLanesPerRow != 0) return;
  float* const to = kept_removed<T>(row) + threadIdx.x / kLanesPerRow * kRows;
  if constexpr (kRows == 4) {
    store4(to, {{removed[0], removed[1], removed[2], removed[3]}});
  } else {
    static_assert(kRows == 1);
    *to = removed[0];
  }
}

inline size_t replayed_bytes(const RingLayout& ring) {
  return static_cast<size_t>(ring.rows) * sizeof(ReplayedRow);
}

// Calls f(version, activation, state element) for the types that rings and states are stored in.
template <class F>
void with_ring_types(int version, DType activation, DType state, F&& f) {
  with_activation(activation, [&](auto sample) {
    const auto with_version = [&](auto number) {
      state == DType::f32 ? f(number, sample, float{}) : f(number, sample, Half{});
    };
    removes(version) ? with_version(std::integral_constant<int, 7>{})
                     : with_version(std::integral_constant<int, 6>{});
  });
}

}  // namespace fulmar::gpu
