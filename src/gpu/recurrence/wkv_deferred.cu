// Both recurrences token by token with deferred state writes (ops/ring.h): a block replays what the ring
// holds over the state that it has read, and keeps its own rows in the ring in place of writing the state.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/ptx.h"
#include "gpu/recurrence/wkv_deferred.h"

namespace fulmar::gpu {

namespace {

// How a block is made, and when it replays the ring.
struct FewStates {  // where a multiprocessor has two heads at most: a row of the state for eight lanes
  static constexpr int kGroups = 4, kBlocks = 2, kTogether = 8, kFetched = 8;
  static constexpr bool kEarly = true;
};
struct SomeStates {  // where all blocks run at once: four rows, registers for what is on its way
  static constexpr int kGroups = 1, kBlocks = 4, kTogether = 8, kFetched = 4;
  static constexpr bool kEarly = true;
};
struct ManyStates {  // several states on their way; tokens' way to the chip would come on top of theirs
  static constexpr int kGroups = 1, kBlocks = 6, kTogether = 1, kFetched = 1;
  static constexpr bool kEarly = false;
};

// Shape::kGroups: of 128 threads, each of which brings a row's vectors. Shape::kTogether: rows of a sequence
// whose vectors lie in shared memory at once, so that threads go through them without meeting; `together` of
// them at most in this step. Shape::kFetched: rows whose vectors are on their way at once. Shape::kEarly: the
// ring is replayed before the kernel in front has finished.
template <int kVersion, class T, class S, class Shape>
__global__ void __launch_bounds__(kWkvThreads* Shape::kGroups, Shape::kBlocks)
    wkv_deferred_kernel(Batch batch, WkvInputs in, LeaveWeights leave, bool leaves, Slots<S> slots,
                        const __grid_constant__ Rings rings, T* y, int64_t y_stride, int64_t longest,
                        int together) {
  constexpr int kGroups = Shape::kGroups, kRows = kRowsPerThread / kGroups;
  constexpr int kFetched = Shape::kFetched, kEach = (kFetched + kGroups - 1) / kGroups;
  constexpr int kTogether = Shape::kTogether;
  constexpr int kWarps = kGroups * kWkvThreads / kWarp, kOutputs = (kTogether + kWarps - 1) / kWarps;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* const tokens = reinterpret_cast<SpreadToken*>(bytes);  // [together]
  auto* const replayed = reinterpret_cast<ReplayedRow*>(tokens + (kTogether == 1 ? 1 : together));
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channel = head * kHeadSize;
  const int64_t slot = batch.slot[sequence];
  const int begin = batch.start[sequence], end = batch.start[sequence + 1];
  const RingStep step = ring_step_of(batch, sequence);
  pdl_launch_next();
  if (end - begin > longest) {
    pdl_wait();  // or the next kernel could start before the one before this has finished
    return;
  }
  const int lane = threadIdx.x % kLanesPerRow, first_row = threadIdx.x / kLanesPerRow * kRows;
  const int bringer = kGroups == 1 ? 0 : threadIdx.x / kWkvThreads;
  S* own = slots[slot] + channel * kHeadSize;
  std::byte* ring = rings.head(slot, head);
  StateRow<S> stored[kRows];
#pragma unroll
  for (int p = 0; p < kRows; p++) stored[p] = fetch_state_row(own + (first_row + p) * kHeadSize, lane);
  // Rows t to t + kFetched - 1 on their way to this group's threads, to all threads, and into the ring, where
  // they may take the place of rows that are replayed: only once nobody reads those any more.
  TokenPart parts[kEach];
  const auto each = [&](int t, auto&& take) {
#pragma unroll
    for (int j = 0; j < kEach; j++) {
      const int i = bringer + j * kGroups;
      if (kFetched == 1 || (i < kFetched && t + i < end)) take(parts[j], i);
    }
  };
  const auto fetch = [&](int t) {
    each(t,
         [&](TokenPart& part, int i) { part = fetch_token<kVersion, T>(in, (t + i) * in.stride + channel); });
  };
  const auto spread = [&](SpreadToken* to, int t) {
    each(t, [&](const TokenPart& part, int i) { spread_token<kVersion, S>(part, in.bonus, channel, to[i]); });
  };
  const auto row_of = [&](int t) { return rings.row(ring, step.first + step.held + t - begin); };
  const auto keep = [&](int t) {
    if (step.keeps == 0) return;
    each(t, [&](const TokenPart& part, int i) { keep_token<kVersion, T>(part, row_of(t + i)); });
  };
  const auto stage = [&] {
    stage_rows<kVersion, T, S, kGroups>([&](int i) { return rings.row(ring, step.first + i); }, step.held,
                                        replayed);
  };
  float state[kRows][kKeys];
  const auto bring_forward = [&] {
#pragma unroll
    for (int p = 0; p < kRows; p++) widen(stored[p], state[p]);
    replay_rows<kVersion>(state, replayed, step.held, rings.every, step.write_at, own);
  };
  if constexpr (Shape::kEarly) {
    stage();
    __syncthreads();
    bring_forward();
  } else {
    for (int i = 0; i < step.held; i++) {
      if (threadIdx.x * 32 < rings.row_stride)
        prefetch_l2(rings.row(ring, step.first + i) + threadIdx.x * 32);
    }
  }
  pdl_wait();
  fetch(begin);
  if constexpr (!Shape::kEarly) stage();
  spread(tokens, begin);
  __syncthreads();
  keep(begin);
  if constexpr (!Shape::kEarly) bring_forward();
  // The warp's first row of those that lie in shared memory; the others follow by kWarps.
  const int first_of_warp = (static_cast<int>(threadIdx.x) / kWarp + kWarps - kOutputWarp) % kWarps;
  for (int t = begin;;) {
    const int count = kTogether == 1 ? 1 : min(end - t, kTogether);
    for (int i = t == begin ? kFetched : 0; i < count; i += kFetched) {
      fetch(t + i);
      spread(tokens + i, t + i);
      keep(t + i);
    }
    if (t != begin || count > kFetched) __syncthreads();
    Float2 gate[kOutputs] = {};
#pragma unroll
    for (int j = 0; j < kOutputs; j++) {
      const int i = first_of_warp + j * kWarps;
      if (!leaves || i >= count) break;
      gate[j] = load2(static_cast<const T*>(in.g) + (t + i) * in.stride + channel + output_channel());
    }
    for (int i = 0; i < count; i++) {
      float removed[kRows];
      update_state<kVersion>(state, tokens[i], removed);
      if (step.keeps == 0) continue;
      keep_removed<kVersion, T>(removed, row_of(t + i));
      // Half states: as if they were written behind every M-th row.
      if ((step.held + (t + i - begin) + 1) % rings.every == 0) round_state<S>(state);
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kOutputs; j++) {
      const int i = first_of_warp + j * kWarps;
      if (i >= count) break;
      write_head<kVersion, T, S>(leave, leaves, gate[j], channel, tokens[i],
                                 y + (t + i) * y_stride + channel);
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
  const int64_t blocks = n_head * batch.sequences;
  with_types(version, y.dtype, wkv.dtype, [&](auto number, auto activation, auto element) {
    using T = decltype(activation);
    using S = decltype(element);
    const auto start = [&](auto shape) {
      using Shape = decltype(shape);
      const int64_t together = std::min({batch.longest, longest, int64_t{Shape::kTogether}});
      const size_t bytes =
          static_cast<size_t>(together) * sizeof(SpreadToken) + replayed_bytes(wkv.ring.layout);
      const auto kernel = wkv_deferred_kernel<number(), T, S, Shape>;
      allow_shared(kernel, bytes);
      launch(queue, kernel, grid, dim3(kWkvThreads * Shape::kGroups), bytes, batch, in, leave, leaves,
             slots_of<S>(wkv), rings_of(wkv.ring), y.as<T>(), y.stride, longest, static_cast<int>(together));
    };
    if (blocks <= int64_t{FewStates::kBlocks} * multiprocessors) return start(FewStates{});
    if (blocks <= int64_t{SomeStates::kBlocks} * multiprocessors) return start(SomeStates{});
    start(ManyStates{});
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
