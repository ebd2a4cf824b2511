// Both recurrences token by token with deferred state writes (ops/ring.h): a block replays what the ring
// holds over the state that it has read, and keeps its own rows in the ring in place of writing the state.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/ptx.h"
#include "gpu/recurrence/wkv_deferred.h"

namespace fulmar::gpu {

namespace {

// Blocks that a multiprocessor is to hold: several states on their way, or room for what is on its way early.
constexpr int kLeastBlocks = 6, kLeastEarlyBlocks = 4;
constexpr int kWkvWarps = kWkvThreads / kWarp;
// Rows of a sequence whose vectors lie in shared memory at once, so that threads go through them without
// meeting.
constexpr int64_t kMostTogether = 8;

// kEarly: the ring is replayed before the kernel in front has finished, which pays where all blocks run at
// once; otherwise the tokens' way to the chip would come on top of the states'.
template <int kVersion, class T, class S, bool kEarly>
__global__ void __launch_bounds__(kWkvThreads, kEarly ? kLeastEarlyBlocks : kLeastBlocks)
    wkv_deferred_kernel(Batch batch, WkvInputs in, LeaveWeights leave, bool leaves, Slots<S> slots,
                        const __grid_constant__ Rings rings, T* y, int64_t y_stride, int64_t longest,
                        int together) {
  constexpr int kFetched = kEarly ? 4 : 1;  // rows whose loads are on their way at once
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* const tokens = reinterpret_cast<SpreadToken*>(bytes);  // [together]
  auto* const replayed = reinterpret_cast<ReplayedRow*>(tokens + together);
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channel = head * kHeadSize;
  const int64_t slot = batch.slot[sequence];
  const int begin = batch.start[sequence], end = batch.start[sequence + 1];
  const RingStep step = ring_step_of(batch, sequence);
  pdl_launch_next();
  if (end - begin > longest) {
    pdl_wait();  // or the next kernel could start before the one before this has finished
    return;
  }
  const int lane = threadIdx.x % kLanesPerRow, group = threadIdx.x / kLanesPerRow;
  S* own = slots[slot] + channel * kHeadSize;
  std::byte* ring = rings.head(slot, head);
  StateRow<S> stored[kRowsPerThread];
#pragma unroll
  for (int p = 0; p < kRowsPerThread; p++) {
    stored[p] = fetch_state_row(own + (group * kRowsPerThread + p) * kHeadSize, lane);
  }
  TokenPart parts[kFetched];
  const auto fetch = [&](int t) {
#pragma unroll
    for (int i = 0; i < kFetched; i++) {
      if (t + i < end) parts[i] = fetch_token<kVersion, T>(in, (t + i) * in.stride + channel);
    }
  };
  const auto spread = [&](SpreadToken* to, int t) {
#pragma unroll
    for (int i = 0; i < kFetched; i++) {
      if (t + i < end) spread_token<kVersion, S>(parts[i], in.bonus, channel, to[i]);
    }
  };
  const auto row_of = [&](int t) { return rings.row(ring, step.first + step.held + t - begin); };
  // Own rows may take the place of those that are replayed: only once nobody reads the ring any more.
  const auto keep = [&](int t) {
#pragma unroll
    for (int i = 0; i < kFetched; i++) {
      if (step.keeps != 0 && t + i < end) keep_token<kVersion, T>(parts[i], row_of(t + i));
    }
  };
  const auto stage = [&] {
    stage_rows<kVersion, T, S>([&](int i) { return rings.row(ring, step.first + i); }, step.held, replayed);
  };
  float state[kRowsPerThread][kKeys];
  const auto bring_forward = [&] {
#pragma unroll
    for (int p = 0; p < kRowsPerThread; p++) widen(stored[p], state[p]);
    replay_rows<kVersion>(state, replayed, step.held, rings.every, step.write_at, own);
  };
  if constexpr (kEarly) {
    stage();
    __syncthreads();
    bring_forward();
  } else {
    for (int i = 0; i < step.held; i++) {
      if (threadIdx.x * 32 < rings.row_stride) prefetch_l2(rings.row(ring, step.first + i) + threadIdx.x * 32);
    }
  }
  pdl_wait();
  fetch(begin);
  if constexpr (!kEarly) stage();
  spread(tokens, begin);
  __syncthreads();
  keep(begin);
  if constexpr (!kEarly) bring_forward();
  // The warp's first row of those that lie in shared memory; the others follow by kWkvWarps.
  const int first_of_warp = (static_cast<int>(threadIdx.x) / kWarp + kWkvWarps - kOutputWarp) % kWkvWarps;
  for (int t = begin;;) {
    const int count = min(end - t, together);
    for (int i = t == begin ? kFetched : 0; i < count; i += kFetched) {
      fetch(t + i);
      spread(tokens + i, t + i);
      keep(t + i);
    }
    if (t != begin || count > kFetched) __syncthreads();
    Float2 gate[kMostTogether / kWkvWarps] = {};
#pragma unroll
    for (int j = 0; j < kMostTogether / kWkvWarps; j++) {
      const int i = first_of_warp + j * kWkvWarps;
      if (!leaves || i >= count) break;
      gate[j] = load2(static_cast<const T*>(in.g) + (t + i) * in.stride + channel + output_channel());
    }
    for (int i = 0; i < count; i++) {
      float removed[kRowsPerThread];
      update_state<kVersion>(state, tokens[i], removed);
      if (step.keeps == 0) continue;
      keep_removed<kVersion, T>(removed, row_of(t + i));
      // Half states: as if they were written behind every M-th row.
      if ((step.held + (t + i - begin) + 1) % rings.every == 0) round_state<S>(state);
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kMostTogether / kWkvWarps; j++) {
      const int i = first_of_warp + j * kWkvWarps;
      if (i >= count) break;
      write_head<kVersion, T, S>(leave, leaves, gate[j], channel, tokens[i], y + (t + i) * y_stride + channel);
    }
    t += count;
    if (t >= end) break;
    __syncthreads();
  }
  if (step.keeps == 0) store_state(own, state);
}

// One head of one layer: replays and writes.
template <int kVersion, class T, class S>
__global__ void __launch_bounds__(kWkvThreads)
    replay_kernel(std::byte* states, size_t layer_stride, std::byte* ring, size_t ring_layer_stride,
                  Rings rings, int first, int held) {
  extern __shared__ ReplayedRow replayed[];
  const int lane = threadIdx.x % kLanesPerRow, group = threadIdx.x / kLanesPerRow;
  const size_t head = blockIdx.x, layer = blockIdx.y;
  pdl_launch_next();
  pdl_wait();
  S* own = reinterpret_cast<S*>(states + layer * layer_stride) + head * kHeadSize * kHeadSize;
  std::byte* own_ring = ring + layer * ring_layer_stride + head * rings.head_stride;
  stage_rows<kVersion, T, S>([&](int i) { return rings.row(own_ring, first + i); }, held, replayed);
  float state[kRowsPerThread][kKeys];
#pragma unroll
  for (int p = 0; p < kRowsPerThread; p++) {
    widen(fetch_state_row(own + (group * kRowsPerThread + p) * kHeadSize, lane), state[p]);
  }
  __syncthreads();
  replay_rows<kVersion, S>(state, replayed, held, rings.every, 0, nullptr);
  store_state(own, state);
}

// f(version, activation, state element) for the types that a ring and a state are kept in.
template <class F>
void with_types(int version, DType activation, DType state, F&& f) {
  with_activation(activation, [&](auto sample) {
    const auto with_version = [&](auto number) {
      state == DType::f32 ? f(number, sample, float{}) : f(number, sample, Half{});
    };
    version == 7 ? with_version(std::integral_constant<int, 7>{})
                 : with_version(std::integral_constant<int, 6>{});
  });
}

}  // namespace

void wkv_deferred(const Queue& queue, int version, const Batch& batch, int64_t n_head, const WkvInputs& in,
                  const LeaveWeights& leave, bool leaves, StateField wkv, Tensor y, int64_t longest,
                  int multiprocessors) {
  const dim3 grid(static_cast<unsigned>(n_head), static_cast<unsigned>(batch.sequences));
  const bool early = n_head * batch.sequences <= int64_t{kLeastEarlyBlocks} * multiprocessors;
  const int64_t together = std::min({batch.longest, longest, kMostTogether});
  const size_t bytes =
      static_cast<size_t>(together) * sizeof(SpreadToken) + replayed_bytes(wkv.ring.layout);
  with_types(version, y.dtype, wkv.dtype, [&](auto number, auto activation, auto element) {
    using T = decltype(activation);
    using S = decltype(element);
    const auto kernel = early ? wkv_deferred_kernel<number(), T, S, true>
                              : wkv_deferred_kernel<number(), T, S, false>;
    allow_shared(kernel, bytes);
    launch(queue, kernel, grid, dim3(kWkvThreads), bytes, batch, in, leave, leaves, slots_of<S>(wkv),
           rings_of(wkv.ring), y.as<T>(), y.stride, longest, static_cast<int>(together));
  });
}

void replay_ring(const Queue& queue, const State& state, int64_t slot, std::byte* states) {
  const StateField field = state.wkv(0);
  const RingCursor& cursor = state.cursors[slot];
  FULMAR_CHECK(field.ring.base != nullptr && state.layout.head_size == kHeadSize);
  const dim3 grid(static_cast<unsigned>(state.layout.n_head), static_cast<unsigned>(state.layout.n_layer));
  with_types(state.ring.removed ? 7 : 6, state.ring.dtype, field.dtype,
             [&](auto number, auto activation, auto element) {
               launch(queue, replay_kernel<number(), decltype(activation), decltype(element)>, grid,
                      dim3(kWkvThreads), replayed_bytes(state.ring), states + state.layout.wkv_offset(0),
                      state.layout.layer_bytes(), field.ring.row(slot, 0, 0), state.ring_layer_bytes(),
                      rings_of(field.ring), cursor.first, cursor.held);
             });
}

}  // namespace fulmar::gpu
