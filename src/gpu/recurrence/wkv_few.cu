// Both recurrences token by token with deferred state writes (ops/ring.h), where a step has so few heads that
// all blocks are resident at once (as when drafts of a few sequences are checked), so latency is all that
// counts. A block replays the ring before the previous kernel has finished (PDL), and processes a sequence's
// rows without barriers between them.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/ptx.h"
#include "gpu/recurrence/wkv_deferred.h"

namespace fulmar::gpu {

namespace {

// Launch shapes; with many heads another kernel is used.
struct FewHeads {  // at most two blocks per SM: eight lanes for each row of a state
  // groups of 128 threads, each loading a row's vectors; blocks per SM; rows whose vectors are in flight at
  // once
  static constexpr int kGroups = 4, kBlocks = 2, kFetched = 8;
};
struct SomeHeads {  // still one wave: four rows for eight lanes, which leaves registers for loads in flight
  static constexpr int kGroups = 1, kBlocks = 4, kFetched = 4;
};
// Rows of a sequence whose vectors are in shared memory at once, so that threads process them without
// barriers; at most `together` per iteration.
constexpr int kTogether = 8;

// Loads rows of a sequence: Shape::kFetched from row t on, divided among the block's groups.
template <int kVersion, class T, class S, class Shape>
struct RowsFetched {
  static constexpr int kGroups = Shape::kGroups, kEach = (Shape::kFetched + kGroups - 1) / kGroups;

  const WkvInputs& in;
  const Rings& rings;
  std::byte* ring;
  RingStep step;
  int64_t channel;
  int begin, end;  // the sequence's rows
  TokenPart parts[kEach];

  template <class Take>
  __device__ __forceinline__ void each(int t, const Take& take) {
    const int bringer = kGroups == 1 ? 0 : threadIdx.x / kWkvThreads;
#pragma unroll
    for (int j = 0; j < kEach; j++) {
      const int i = bringer + j * kGroups;
      if (i < Shape::kFetched && t + i < end) take(parts[j], i);
    }
  }
  __device__ __forceinline__ void fetch(int t) {
    each(t, [&](TokenPart& part, int i) {
      part = fetch_token<kVersion, T, kGroups>(in, (t + i) * in.stride + channel);
    });
  }
  __device__ __forceinline__ void spread(SpreadToken* to, int t) {
    each(t, [&](const TokenPart& part, int i) {
      spread_token<kVersion, S, kGroups>(part, in.bonus, channel, to[i]);
    });
  }
  __device__ __forceinline__ std::byte* row_of(int t) const {
    return rings.row(ring, step.first + step.held + t - begin);
  }
  // Appends them to the ring: only after all threads have read the pending rows,
  // which they may overwrite.
  __device__ __forceinline__ void keep(int t) {
    if (step.keeps == 0) return;
    each(t, [&](const TokenPart& part, int i) { keep_token<kVersion, T, kGroups>(part, row_of(t + i)); });
  }
};

// Rows in shared memory that a warp processes: its first one, then every kWarps-th.
template <class Shape>
struct OutputRows {
  static constexpr int kWarps = Shape::kGroups * kWkvThreads / kWarp,
                       kEach = (kTogether + kWarps - 1) / kWarps;
  int first = (static_cast<int>(threadIdx.x) / kWarp + kWarps - kOutputWarp) % kWarps;

  template <class Take>
  __device__ __forceinline__ void each(int count, const Take& take) const {
#pragma unroll
    for (int j = 0; j < kEach; j++) {
      const int i = first + j * kWarps;
      if (i >= count) break;
      take(i, j);
    }
  }
};

template <int kVersion, class T, class S, class Shape>
__global__ void __launch_bounds__(kWkvThreads* Shape::kGroups, Shape::kBlocks)
    wkv_few_kernel(Batch batch, WkvInputs in, LeaveWeights leave, bool leaves, Slots<S> slots,
                   const __grid_constant__ Rings rings, T* y, int64_t y_stride, int64_t longest,
                   int together) {
  constexpr int kGroups = Shape::kGroups, kRows = kRowsPerThread / kGroups, kFetched = Shape::kFetched;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* const tokens = reinterpret_cast<SpreadToken*>(bytes);  // [together]
  auto* const replayed = reinterpret_cast<ReplayedRow*>(tokens + together);
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channel = head * kHeadSize;
  const int64_t slot = batch.slot[sequence];
  const int begin = batch.start[sequence], end = batch.start[sequence + 1];
  const RingStep step = ring_step_of(batch, sequence);
  pdl_launch_next();
  if (end - begin > longest) {
    pdl_wait();  // or the next kernel could start before the previous one has finished
    return;
  }
  const int lane = threadIdx.x % kLanesPerRow, first_row = threadIdx.x / kLanesPerRow * kRows;
  S* own = slots[slot] + channel * kHeadSize;
  std::byte* ring = rings.head(slot, head);
  StateRow<S> stored[kRows];
#pragma unroll
  for (int p = 0; p < kRows; p++) stored[p] = fetch_state_row(own + (first_row + p) * kHeadSize, lane);
  RowsFetched<kVersion, T, S, Shape> coming{in, rings, ring, step, channel, begin, end, {}};
  float state[kRows][kKeys];
  stage_rows<kVersion, T, S, kGroups>([&](int i) { return rings.row(ring, step.first + i); }, step.held,
                                      replayed);
  __syncthreads();
#pragma unroll
  for (int p = 0; p < kRows; p++) widen(stored[p], state[p]);
  replay_rows<kVersion>(state, replayed, step.held, rings.every, step.write_at, own);
  pdl_wait();
  coming.fetch(begin);
  coming.spread(tokens, begin);
  __syncthreads();
  coming.keep(begin);
  const OutputRows<Shape> outputs;
  for (int t = begin;;) {
    const int count = min(end - t, kTogether);
    for (int i = t == begin ? kFetched : 0; i < count; i += kFetched) {
      coming.fetch(t + i);
      coming.spread(tokens + i, t + i);
      coming.keep(t + i);
    }
    if (t != begin || count > kFetched) __syncthreads();
    Float2 gate[outputs.kEach] = {};
    outputs.each(leaves ? count : 0, [&](int i, int j) {
      gate[j] = load2(static_cast<const T*>(in.g) + (t + i) * in.stride + channel + output_channel());
    });
    for (int i = 0; i < count; i++) {
      float removed[kRows];
      update_state<kVersion>(state, tokens[i], removed);
      if (step.keeps == 0) continue;
      keep_removed<kVersion, T>(removed, coming.row_of(t + i));
      // f16 states are rounded as if they were written after every M-th row.
      if ((step.held + (t + i - begin) + 1) % rings.every == 0) round_state<S>(state);
    }
    __syncthreads();
    outputs.each(count, [&](int i, int j) {
      write_head<kVersion, T, S>(leave, leaves, gate[j], channel, tokens[i],
                                 y + (t + i) * y_stride + channel);
    });
    t += count;
    if (t >= end) break;
    __syncthreads();
  }
  if (step.keeps == 0) store_state(own, state);
}

}  // namespace

bool suits_wkv_few(int64_t heads, int multiprocessors) {
  return heads <= int64_t{SomeHeads::kBlocks} * multiprocessors;
}

void wkv_few(const Queue& queue, const Batch& batch, const WkvHeads& heads, const Recurrence& on) {
  const dim3 grid(static_cast<unsigned>(heads.count), static_cast<unsigned>(batch.sequences));
  const int64_t blocks = heads.count * batch.sequences;
  with_ring_types(heads.version, on.y.dtype, on.wkv.dtype, [&](auto number, auto activation, auto element) {
    using T = decltype(activation);
    using S = decltype(element);
    const auto start = [&](auto shape) {
      using Shape = decltype(shape);
      const int64_t together = std::min({batch.longest, on.longest, int64_t{kTogether}});
      const size_t bytes =
          static_cast<size_t>(together) * sizeof(SpreadToken) + replayed_bytes(on.wkv.ring.layout);
      const auto kernel = wkv_few_kernel<number(), T, S, Shape>;
      allow_shared(kernel, bytes);
      launch(queue, kernel, grid, dim3(kWkvThreads * Shape::kGroups), bytes, batch, heads.in, heads.leave,
             on.leaves, slots_of<S>(on.wkv), rings_of(on.wkv.ring), on.y.as<T>(), on.y.stride, on.longest,
             static_cast<int>(together));
    };
    blocks <= int64_t{FewHeads::kBlocks} * on.multiprocessors ? start(FewHeads{}) : start(SomeHeads{});
  });
}

}  // namespace fulmar::gpu
