// The recurrence of a step of one row per sequence, for f16 states. States are small, so persistent blocks
// prefetch the next states and tokens into shared memory (bulk copies with mbarriers, or cp.async) while they
// process one: under full load memory latency is high. With deferred writes (ops/ring.h) the pending rows are
// prefetched with their state.
#include <algorithm>

#include "gpu/device/ptx.h"
#include "gpu/recurrence/wkv_deferred.h"

namespace fulmar::gpu {

namespace {

// Blocks per SM, and states that each has in flight.
constexpr int kBlocksEach = 4, kStatesAhead = 4;
// The thread that issues bulk copies: in the warp with the least other work.
constexpr int kSender = kWkvThreads - kWarp;
constexpr int kSinglesVector = 8;  // elements per 16 bytes
constexpr int kTokenPieces = kHeadSize / kSinglesVector;
constexpr uint32_t kStateBytes = kHeadSize * kHeadSize * sizeof(Half);

enum TokenVector : int { kR, kK, kV, kU, kKk, kAlpha, kGate, kTokenVectors };
static_assert(kTokenVectors * kTokenPieces <= kWkvThreads);

template <class T>
struct TokenSource {
  const T* of[kTokenVectors];  // [rows, C]; null: not in this version
  int64_t stride;
  uint32_t bytes;  // of a token's vectors for one head
};

template <class T>
struct StateStage {
  alignas(128) Half state[kHeadSize][kHeadSize];
  alignas(16) T token[kTokenVectors][kHeadSize];
};

// Shared memory after this struct holds states being stored or, with deferred writes, the pending rows of
// each stage and the rows being replayed.
template <class T>
struct alignas(128) SinglesShared {
  StateStage<T> coming[kStatesAhead];
  SpreadToken both[2];  // alternating: one token's output is written while the next one is read
  uint64_t full[kStatesAhead];
};
struct StatesGoing {
  alignas(128) Half of[2][kHeadSize][kHeadSize];
};

// A layer's rings, and where each stage's pending rows are in shared memory.
struct StagedRings {
  Rings rings;
  uint32_t stage_bytes;  // for all rows of a ring
  __device__ std::byte* stage(std::byte* staged, int place) const {
    return staged + static_cast<size_t>(place) * stage_bytes;
  }
  __device__ ReplayedRow* replayed(std::byte* staged) const {
    return reinterpret_cast<ReplayedRow*>(stage(staged, kStatesAhead));
  }
};

// The slot of the state that a block processes, and its ring action.
struct SlotStep {
  int32_t slot;
  RingStep ring;
};

// Loads a state; the functions below load tokens and rows. With bulk copies one thread issues all copies of a
// stage; without, every thread issues some.
template <class T>
__device__ __forceinline__ void fetch_state(SinglesShared<T>& shared, int place, const Half* from,
                                            uint32_t more_bytes) {
  StateStage<T>& to = shared.coming[place];
  if constexpr (kBulkCopies) {
    if (threadIdx.x != kSender) return;
    mbarrier_expect_bytes(&shared.full[place], kStateBytes + more_bytes);
    bulk_load(to.state, from, kStateBytes, &shared.full[place]);
  } else {
    constexpr int kStatePieces = kHeadSize * kHeadSize / kSinglesVector;
#pragma unroll
    for (int i = threadIdx.x; i < kStatePieces; i += kWkvThreads) {
      __pipeline_memcpy_async(&to.state[0][0] + i * kSinglesVector, from + i * kSinglesVector, 16);
    }
  }
}
// Loads the pending rows, oldest first; they may wrap around the ring's end.
__device__ __forceinline__ void fetch_rows(std::byte* to, const Rings& rings, std::byte* head, RingStep step,
                                           uint64_t* barrier) {
  const auto stride = static_cast<uint32_t>(rings.row_stride);
  const int straight = min(static_cast<int>(step.held), rings.rows - step.first);
  const auto fetch = [&](int at, int first, int count) {
    if (count <= 0) return;
    std::byte *const target = to + at * stride, *const from = head + first * stride;
    if constexpr (kBulkCopies) {
      if (threadIdx.x == kSender) bulk_load(target, from, count * stride, barrier);
    } else {
      for (uint32_t i = threadIdx.x * 16; i < count * stride; i += kWkvThreads * 16) {
        __pipeline_memcpy_async(target + i, from + i, 16);
      }
    }
  };
  fetch(0, step.first, straight);
  fetch(straight, 0, step.held - straight);
}
template <class T>
__device__ __forceinline__ void stage_token(SinglesShared<T>& shared, int place, const TokenSource<T>& source,
                                            int64_t at) {
  StateStage<T>& to = shared.coming[place];
  if constexpr (kBulkCopies) {
    if (threadIdx.x != kSender) return;
#pragma unroll
    for (int i = 0; i < kTokenVectors; i++) {
      if (source.of[i] != nullptr) {
        bulk_load(to.token[i], source.of[i] + at, sizeof(to.token[i]), &shared.full[place]);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kTokenVectors; i++) {
      if (static_cast<int>(threadIdx.x) / kTokenPieces != i || source.of[i] == nullptr) continue;
      const int piece = threadIdx.x % kTokenPieces * kSinglesVector;
      __pipeline_memcpy_async(to.token[i] + piece, source.of[i] + at + piece, 16);
    }
  }
}
template <class T>
__device__ __forceinline__ void wait_for_stage(SinglesShared<T>& shared, int place, uint32_t parity) {
  if constexpr (kBulkCopies) {
    mbarrier_wait(&shared.full[place], parity);
  } else {
    __pipeline_wait_prior(kStatesAhead - 1);
    __syncthreads();
  }
}

// A thread's part of a state: kRowsPerThread rows from group * kRowsPerThread on, eight adjacent columns of
// each.
struct StatePart {
  int group, lane;
  __device__ __forceinline__ int row(int p) const { return group * kRowsPerThread + p; }
};
__device__ __forceinline__ void put_state(Half (&going)[kHeadSize][kHeadSize], Half* own,
                                          const StatePart& part,
                                          const float (&state)[kRowsPerThread][kKeys]) {
#pragma unroll
  for (int p = 0; p < kRowsPerThread; p++) {
    if constexpr (kBulkCopies) {
      *reinterpret_cast<uint4*>(&going[part.row(p)][part.lane * kKeys]) = pack_state_row(state[p]);
    } else {
      store_state_row(own + part.row(p) * kHeadSize, part.lane, state[p]);
    }
  }
  if constexpr (kBulkCopies) fence_async_proxy();
}

template <int kVersion, class T>
__device__ __forceinline__ TokenPart part_of(const T (&token)[kTokenVectors][kHeadSize]) {
  const int c = threadIdx.x % kHeadSize;
  const auto number = [&](int vector) { return to_float(token[vector][c]); };
  if (threadIdx.x < kHeadSize) return {{number(kR), number(kU), number(kK)}};
  if (kRemoves<kVersion>) return {{number(kV), number(kKk), number(kAlpha)}};
  return {{number(kV), 0.0f, 0.0f}};
}

// The sequences whose state of one head a block processes.
template <class T, bool kDeferred>
struct SinglesWalk {
  const Batch& batch;
  const TokenSource<T>& source;
  const StagedRings& ring;
  const Slots<Half>& slots;
  SinglesShared<T>& shared;
  std::byte* staged;  // if kDeferred
  int64_t head, channel;

  // Returns a sequence's step, looked up well before it is needed; past the last sequence an empty one.
  __device__ __forceinline__ SlotStep slot_step(int64_t sequence) const {
    SlotStep current{};
    if (sequence >= batch.sequences) return current;
    current.slot = batch.slot[sequence];
    if constexpr (kDeferred) current.ring = ring_step_of(batch, sequence);
    return current;
  }
  __device__ __forceinline__ Half* state_of(const SlotStep& current) const {
    return slots[current.slot] + channel * kHeadSize;
  }
  __device__ __forceinline__ void bring_state(int64_t sequence, const SlotStep& current, int place) const {
    if (sequence >= batch.sequences) return;
    uint32_t more = source.bytes;
    if constexpr (kDeferred) more += static_cast<uint32_t>(current.ring.held * ring.rings.row_stride);
    fetch_state(shared, place, state_of(current), more);
    if constexpr (kDeferred) {
      fetch_rows(ring.stage(staged, place), ring.rings, ring.rings.head(current.slot, head), current.ring,
                 &shared.full[place]);
    }
  }
  __device__ __forceinline__ void bring_token(int64_t sequence, int place) const {
    if (sequence < batch.sequences) stage_token(shared, place, source, sequence * source.stride + channel);
    if constexpr (!kBulkCopies) __pipeline_commit();  // also empty ones: the wait counts commits
  }
  // Replays pending rows, updates the state by the token, and stores the state or appends to the ring.
  template <int kVersion>
  __device__ __forceinline__ void update_deferred(float (&state)[kRowsPerThread][kKeys],
                                                  const TokenPart& part, SpreadToken& token,
                                                  const SlotStep& current, Half* own) const {
    const auto kept_row = [&] {
      return ring.rings.row(ring.rings.head(current.slot, head), current.ring.first + current.ring.held);
    };
    if (current.ring.keeps != 0) keep_token<kVersion, T>(part, kept_row());
    replay_rows<kVersion>(state, ring.replayed(staged), current.ring.held, ring.rings.every,
                          current.ring.write_at, own);
    float removed[kRowsPerThread];
    update_state<kVersion>(state, token, removed);
    if (current.ring.keeps != 0) {
      keep_removed<kVersion, T>(removed, kept_row());
    } else {
      store_state(own, state);
    }
  }
};

template <int kVersion, class T, bool kDeferred>
__global__ void __launch_bounds__(kWkvThreads, kBlocksEach)
    wkv_single_kernel(Batch batch, int64_t n_head, const __grid_constant__ TokenSource<T> source,
                      const float* bonus, LeaveWeights leave, bool leaves, Slots<Half> slots,
                      const __grid_constant__ StagedRings ring, T* y, int64_t y_stride) {
  extern __shared__ __align__(128) unsigned char bytes[];
  auto& shared = *reinterpret_cast<SinglesShared<T>*>(bytes);
  auto* const staged = reinterpret_cast<std::byte*>(bytes + sizeof(SinglesShared<T>));  // kDeferred
  [[maybe_unused]] auto& going = *reinterpret_cast<StatesGoing*>(staged);               // if not kDeferred
  const StatePart part{static_cast<int>(threadIdx.x) / kLanesPerRow,
                       static_cast<int>(threadIdx.x) % kLanesPerRow};
  const int64_t head = blockIdx.x % n_head, channel = head * kHeadSize, step = gridDim.x / n_head;
  const SinglesWalk<T, kDeferred> walk{batch, source, ring, slots, shared, staged, head, channel};
  pdl_launch_next();
  if (kBulkCopies && threadIdx.x == kSender) {
    for (uint64_t& barrier : shared.full) mbarrier_init(&barrier, 1);
    mbarrier_publish();
  }
  int64_t sequence = blockIdx.x / n_head;
#pragma unroll
  for (int place = 0; place < kStatesAhead; place++) {
    walk.bring_state(sequence + place * step, walk.slot_step(sequence + place * step), place);
  }
  SlotStep current = walk.slot_step(sequence), coming = walk.slot_step(sequence + kStatesAhead * step);
  pdl_wait();
#pragma unroll
  for (int place = 0; place < kStatesAhead; place++) walk.bring_token(sequence + place * step, place);
  __syncthreads();
  int place = 0;
  uint32_t parity = 0;
  for (int side = 0; sequence < batch.sequences; sequence += step, side ^= 1) {
    SpreadToken& token = shared.both[side];
    const StateStage<T>& from = shared.coming[place];
    const SlotStep next = walk.slot_step(sequence + step),
                   after = walk.slot_step(sequence + (kStatesAhead + 1) * step);
    Half* const own = walk.state_of(current);
    wait_for_stage(shared, place, parity);
    const TokenPart numbers = part_of<kVersion, T>(from.token);
    spread_token<kVersion, Half>(numbers, bonus, channel, token);
    if constexpr (kDeferred) {
      std::byte* const rows = ring.stage(staged, place);
      stage_rows<kVersion, T, Half>([&](int i) { return rows + i * ring.rings.row_stride; },
                                    current.ring.held, ring.replayed(staged));
    }
    Float2 gate{};
    if (leaves && writes_output()) gate = load2(&from.token[kGate][output_channel()]);
    float state[kRowsPerThread][kKeys];
#pragma unroll
    for (int p = 0; p < kRowsPerThread; p++) {
      widen(StateRow<Half>{{*reinterpret_cast<const uint4*>(&from.state[part.row(p)][part.lane * kKeys])}},
            state[p]);
    }
    if (!kDeferred && kBulkCopies && threadIdx.x == kSender) bulk_wait_read<1>();  // frees going.of[side]
    __syncthreads();
    walk.bring_state(sequence + kStatesAhead * step, coming, place);
    walk.bring_token(sequence + kStatesAhead * step, place);
    if (++place == kStatesAhead) place = 0, parity ^= 1;
    if constexpr (kDeferred) {
      walk.template update_deferred<kVersion>(state, numbers, token, current, own);
    } else {
      update_state<kVersion>(state, token);
      put_state(going.of[side], own, part, state);
    }
    __syncthreads();
    if (!kDeferred && kBulkCopies && threadIdx.x == kSender) bulk_store(own, going.of[side], kStateBytes);
    write_output<kVersion, T, Half>(leave, leaves, gate, channel, token, y + sequence * y_stride + channel);
    current = next, coming = after;
  }
  if (!kDeferred && kBulkCopies && threadIdx.x == kSender) bulk_wait_written();
}

// Returns how many blocks with this much shared memory an SM holds, kBlocksEach at most.
int64_t blocks_at_once(size_t bytes) {
  constexpr size_t kOfEachBlock = 1024;  // reserved by the device
  int device = 0, shared = 0;
  FULMAR_GPU(cudaGetDevice(&device));
  FULMAR_GPU(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  const auto fits = static_cast<int64_t>(static_cast<size_t>(shared) / (bytes + kOfEachBlock));
  return std::clamp<int64_t>(fits, 1, kBlocksEach);
}

template <int kVersion, class T, bool kDeferred>
void wkv_single_of(const Queue& queue, const Batch& batch, const WkvHeads& heads, const Recurrence& on) {
  const WkvInputs& in = heads.in;
  StagedRings ring{};
  size_t bytes = sizeof(SinglesShared<T>) + sizeof(StatesGoing);
  if constexpr (kDeferred) {
    const RingLayout& layout = on.wkv.ring.layout;
    ring = {rings_of(on.wkv.ring), static_cast<uint32_t>(on.wkv.ring.row_stride * layout.rows)};
    bytes = sizeof(SinglesShared<T>) + kStatesAhead * ring.stage_bytes + replayed_bytes(layout);
  }
  allow_shared(wkv_single_kernel<kVersion, T, kDeferred>, bytes);
  TokenSource<T> source{{}, in.stride, 0};
  const void* const all[kTokenVectors] = {in.r, in.k, in.v, in.u, in.kk, in.alpha, in.g};
  for (int i = 0; i < kTokenVectors; i++) {
    source.of[i] = static_cast<const T*>(all[i]);
    if (all[i] != nullptr) source.bytes += kHeadSize * sizeof(T);
  }
  // A multiple of the number of heads, so that a block keeps its head.
  const int64_t each = kDeferred ? blocks_at_once(bytes) : kBlocksEach;
  const int64_t together = std::max<int64_t>(1, on.multiprocessors * each / heads.count);
  const int64_t blocks = heads.count * std::min<int64_t>(batch.sequences, together);
  launch(queue, wkv_single_kernel<kVersion, T, kDeferred>, dim3(static_cast<unsigned>(blocks)),
         dim3(kWkvThreads), bytes, batch, heads.count, source, in.bonus, heads.leave, on.leaves,
         slots_of<Half>(on.wkv), ring, on.y.as<T>(), on.y.stride);
}

}  // namespace

void wkv_single(const Queue& queue, const Batch& batch, const WkvHeads& heads, const Recurrence& on) {
  with_activation(on.y.dtype, [&](auto sample) {
    using T = decltype(sample);
    const bool deferred = batch.ring != nullptr;
    const auto run = removes(heads.version)
                         ? (deferred ? wkv_single_of<7, T, true> : wkv_single_of<7, T, false>)
                         : (deferred ? wkv_single_of<6, T, true> : wkv_single_of<6, T, false>);
    run(queue, batch, heads, on);
  });
}

}  // namespace fulmar::gpu
