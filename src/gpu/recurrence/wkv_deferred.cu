// Both recurrences token by token with deferred state writes (ops/ring.h), for many heads: a block loads the
// state and replays the ring's pending rows onto it before the previous kernel has finished (PDL), and
// appends its own rows to the ring instead of writing the state.
#include "base/check.h"
#include "gpu/device/ptx.h"
#include "gpu/recurrence/wkv_deferred.h"
#include "ops/state.h"

namespace fulmar::gpu {

namespace {

constexpr int kLeastBlocks = 6;  // min blocks per SM: several states in flight

template <int kVersion, class T, class S>
__global__ void __launch_bounds__(kWkvThreads, kLeastBlocks)
    wkv_deferred_kernel(Batch batch, WkvInputs in, LeaveWeights leave, bool leaves, Slots<S> slots,
                        const __grid_constant__ Rings rings, T* y, int64_t y_stride, int64_t longest) {
  extern __shared__ ReplayedRow replayed[];
  __shared__ SpreadToken shared;
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channel = head * kHeadSize;
  const int64_t begin = batch.start[sequence], end = batch.start[sequence + 1], slot = batch.slot[sequence];
  const RingStep step = ring_step_of(batch, sequence);
  pdl_launch_next();
  if (end - begin > longest) {
    pdl_wait();  // or the next kernel could start before the previous one has finished
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
  for (int i = 0; i < step.held; i++) {
    if (threadIdx.x * 32 < rings.row_stride) prefetch_l2(rings.row(ring, step.first + i) + threadIdx.x * 32);
  }
  pdl_wait();
  // Pass the inputs of the step's own row `t` to all threads and, after all have read the ring's pending
  // rows, append them to it.
  const auto row_of = [&](int64_t t) {
    return rings.row(ring, step.first + step.held + static_cast<int>(t - begin));
  };
  const auto spread = [&](int64_t t, const TokenPart& part) {
    spread_token<kVersion, S>(part, in.bonus, channel, shared);
    __syncthreads();
    if (step.keeps != 0) keep_token<kVersion, T>(part, row_of(t));
  };
  const TokenPart front = fetch_token<kVersion, T>(in, begin * in.stride + channel);
  stage_rows<kVersion, T, S>([&](int i) { return rings.row(ring, step.first + i); }, step.held, replayed);
  spread(begin, front);
  float state[kRowsPerThread][kKeys];
#pragma unroll
  for (int p = 0; p < kRowsPerThread; p++) widen(stored[p], state[p]);
  replay_rows<kVersion>(state, replayed, step.held, rings.every, step.write_at, own);
  for (int64_t t = begin;;) {
    Float2 gate{};
    if (leaves && writes_output()) {
      gate = load2(static_cast<const T*>(in.g) + t * in.stride + channel + output_channel());
    }
    float removed[kRowsPerThread];
    update_state<kVersion>(state, shared, removed);
    if (step.keeps != 0) {
      keep_removed<kVersion, T>(removed, row_of(t));
      // f16 states are rounded as if they were written after every M-th row.
      if ((step.held + (t - begin) + 1) % rings.every == 0) round_state<S>(state);
    }
    __syncthreads();
    write_output<kVersion, T, S>(leave, leaves, gate, channel, shared, y + t * y_stride + channel);
    if (++t == end) break;
    const TokenPart part = fetch_token<kVersion, T>(in, t * in.stride + channel);
    __syncthreads();
    spread(t, part);
  }
  if (step.keeps == 0) store_state(own, state);
}

// Replays and writes one head of one layer.
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

}  // namespace

void wkv_deferred(const Queue& queue, const Batch& batch, const WkvHeads& heads, const Recurrence& on) {
  const dim3 grid(static_cast<unsigned>(heads.count), static_cast<unsigned>(batch.sequences));
  with_ring_types(heads.version, on.y.dtype, on.wkv.dtype, [&](auto number, auto activation, auto element) {
    using T = decltype(activation);
    using S = decltype(element);
    launch(queue, wkv_deferred_kernel<number(), T, S>, grid, dim3(kWkvThreads),
           replayed_bytes(on.wkv.ring.layout), batch, heads.in, heads.leave, on.leaves, slots_of<S>(on.wkv),
           rings_of(on.wkv.ring), on.y.as<T>(), on.y.stride, on.longest);
  });
}

void replay_ring(const Queue& queue, const State& state, int64_t slot, std::byte* states) {
  const size_t replayed = state.layout.fields.replayed();
  const StateField field = state.field(0, replayed);
  const RingCursor& cursor = state.cursors[slot];
  FULMAR_CHECK(field.ring.base != nullptr && state.layout.head_size == kHeadSize);
  const dim3 grid(static_cast<unsigned>(state.layout.n_head), static_cast<unsigned>(state.layout.n_layer));
  with_ring_types(state.ring.removed ? 7 : 6, state.ring.dtype, field.dtype,
                  [&](auto number, auto activation, auto element) {
                    launch(queue, replay_kernel<number(), decltype(activation), decltype(element)>, grid,
                           dim3(kWkvThreads), replayed_bytes(state.ring),
                           states + state.layout.offset(0, replayed), state.layout.layer_bytes(),
                           field.ring.row(slot, 0, 0), state.ring_layer_bytes(), rings_of(field.ring),
                           cursor.first, cursor.held);
                  });
}

}  // namespace fulmar::gpu
