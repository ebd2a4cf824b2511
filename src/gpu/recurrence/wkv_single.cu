// The recurrence of a step in which every sequence has one row, for half states: these are small, so blocks
// go from state to state and have the next ones on their way through shared memory (bulk copies counted by
// mbarriers, or cp.async) while they work on one, tokens included. Either comes late when all blocks keep the
// memory busy.
#include <algorithm>

#include "gpu/device/ptx.h"
#include "gpu/recurrence/wkv_head.h"

namespace fulmar::gpu {

namespace {

// Blocks of one multiprocessor, and states that each has on its way.
constexpr int kBlocksEach = 4, kStatesAhead = 4;
constexpr int kSinglesVector = 8;  // elements of 16 bytes
constexpr int kTokenPieces = kHeadSize / kSinglesVector;
constexpr uint32_t kStateBytes = kHeadSize * kHeadSize * sizeof(Half);

enum TokenVector : int { kR, kK, kV, kU, kKk, kAlpha, kGate, kTokenVectors };
static_assert(kTokenVectors * kTokenPieces <= kWkvThreads);

template <class T>
struct TokenSource {
  const T* of[kTokenVectors];  // [rows, C]; null: this version has none
  int64_t stride;
  uint32_t bytes;  // of a token's vectors on one head
};

template <class T>
struct StateStage {
  alignas(128) Half state[kHeadSize][kHeadSize];
  alignas(16) T token[kTokenVectors][kHeadSize];
};

template <class T>
struct SinglesShared {
  StateStage<T> coming[kStatesAhead];
  alignas(128) Half going[2][kHeadSize][kHeadSize];
  SpreadToken both[2];  // by turns: the output of one state is written while the next one begins
  uint64_t full[kStatesAhead];
};

// States and tokens on their way in. With bulk copies one thread asks for all of a stage; without, every
// thread for some pieces.
template <class T>
__device__ __forceinline__ void fetch_state(SinglesShared<T>& shared, int place, const Half* from,
                                            uint32_t token_bytes) {
  StateStage<T>& to = shared.coming[place];
  if constexpr (kBulkCopies) {
    if (threadIdx.x != 0) return;
    mbarrier_expect_bytes(&shared.full[place], kStateBytes + token_bytes);
    bulk_load(to.state, from, kStateBytes, &shared.full[place]);
  } else {
    constexpr int kStatePieces = kHeadSize * kHeadSize / kSinglesVector;
#pragma unroll
    for (int i = threadIdx.x; i < kStatePieces; i += kWkvThreads) {
      __pipeline_memcpy_async(&to.state[0][0] + i * kSinglesVector, from + i * kSinglesVector, 16);
    }
  }
}
template <class T>
__device__ __forceinline__ void fetch_token(SinglesShared<T>& shared, int place, const TokenSource<T>& source,
                                            int64_t at) {
  StateStage<T>& to = shared.coming[place];
  if constexpr (kBulkCopies) {
    if (threadIdx.x != 0) return;
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

// What a thread has of a state: kRowsPerThread rows from group * kRowsPerThread on, eight neighbours of each.
struct Part {
  int group, lane;
  __device__ __forceinline__ int row(int p) const { return group * kRowsPerThread + p; }
};
__device__ __forceinline__ void put_state(Half (&going)[kHeadSize][kHeadSize], Half* own, const Part& part,
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
  if (kVersion == 7) return {{number(kV), number(kKk), number(kAlpha)}};
  return {{number(kV), 0.0f, 0.0f}};
}

template <int kVersion, class T>
__global__ void __launch_bounds__(kWkvThreads, kBlocksEach)
    wkv_single_kernel(Batch batch, int64_t n_head, const __grid_constant__ TokenSource<T> source,
                      const float* bonus, LeaveWeights leave, bool leaves, Slots<Half> slots, T* y,
                      int64_t y_stride) {
  extern __shared__ __align__(128) unsigned char bytes[];
  auto& shared = *reinterpret_cast<SinglesShared<T>*>(bytes);
  const Part part{static_cast<int>(threadIdx.x) / kLanesPerRow, static_cast<int>(threadIdx.x) % kLanesPerRow};
  const int64_t channel = blockIdx.x % n_head * kHeadSize, step = gridDim.x / n_head;
  const auto state_of = [&](int64_t sequence) { return slots[batch.slot[sequence]] + channel * kHeadSize; };
  const auto bring_state = [&](int64_t sequence, int place) {
    if (sequence < batch.sequences) fetch_state(shared, place, state_of(sequence), source.bytes);
  };
  const auto bring_token = [&](int64_t sequence, int place) {
    if (sequence < batch.sequences) fetch_token(shared, place, source, sequence * source.stride + channel);
    if constexpr (!kBulkCopies) __pipeline_commit();  // also when there is nothing: waiting counts commits
  };
  pdl_launch_next();
  if (kBulkCopies && threadIdx.x == 0) {
    for (uint64_t& barrier : shared.full) mbarrier_init(&barrier, 1);
    mbarrier_publish();
  }
  int64_t sequence = blockIdx.x / n_head;
#pragma unroll
  for (int place = 0; place < kStatesAhead; place++) bring_state(sequence + place * step, place);
  pdl_wait();
#pragma unroll
  for (int place = 0; place < kStatesAhead; place++) bring_token(sequence + place * step, place);
  __syncthreads();
  int place = 0;
  uint32_t parity = 0;
  for (int side = 0; sequence < batch.sequences; sequence += step, side ^= 1) {
    SpreadToken& token = shared.both[side];
    const StateStage<T>& from = shared.coming[place];
    wait_for_stage(shared, place, parity);
    spread_token<kVersion, Half>(part_of<kVersion, T>(from.token), bonus, channel, token);
    Float2 gate{};
    if (leaves && threadIdx.x < kWarp) gate = load2(&from.token[kGate][2 * threadIdx.x]);
    float state[kRowsPerThread][kKeys];
#pragma unroll
    for (int p = 0; p < kRowsPerThread; p++) {
      widen(StateRow<Half>{{*reinterpret_cast<const uint4*>(&from.state[part.row(p)][part.lane * kKeys])}},
            state[p]);
    }
    if (kBulkCopies && threadIdx.x == 0) bulk_wait_read<1>();  // so that going[side] is free
    __syncthreads();
    bring_state(sequence + kStatesAhead * step, place);
    bring_token(sequence + kStatesAhead * step, place);
    if (++place == kStatesAhead) place = 0, parity ^= 1;
    advance<kVersion>(state, token);
    put_state(shared.going[side], state_of(sequence), part, state);
    __syncthreads();
    if (kBulkCopies && threadIdx.x == 0) bulk_store(state_of(sequence), shared.going[side], kStateBytes);
    write_output<kVersion, T, Half>(leave, leaves, gate, channel, token, y + sequence * y_stride + channel);
  }
  if (kBulkCopies && threadIdx.x == 0) bulk_wait_written();
}

template <int kVersion, class T>
void wkv_single_of(const Queue& queue, const Batch& batch, int64_t n_head, const WkvInputs& in,
                   const LeaveWeights& leave, bool leaves, StateField wkv, Tensor y, int multiprocessors) {
  allow_shared(wkv_single_kernel<kVersion, T>, sizeof(SinglesShared<T>));
  TokenSource<T> source{{}, in.stride, 0};
  const void* const all[kTokenVectors] = {in.r, in.k, in.v, in.u, in.kk, in.alpha, in.g};
  for (int i = 0; i < kTokenVectors; i++) {
    source.of[i] = static_cast<const T*>(all[i]);
    if (all[i] != nullptr) source.bytes += kHeadSize * sizeof(T);
  }
  // Whole multiples of the heads, so that a block stays with one head.
  const int64_t together = std::max<int64_t>(1, multiprocessors * kBlocksEach / n_head);
  const int64_t blocks = n_head * std::min<int64_t>(batch.sequences, together);
  launch(queue, wkv_single_kernel<kVersion, T>, dim3(static_cast<unsigned>(blocks)), dim3(kWkvThreads),
         sizeof(SinglesShared<T>), batch, n_head, source, in.bonus, leave, leaves, slots_of<Half>(wkv),
         y.as<T>(), y.stride);
}

}  // namespace

void wkv_single(const Queue& queue, int version, const Batch& batch, int64_t n_head, const WkvInputs& in,
                const LeaveWeights& leave, bool leaves, StateField wkv, Tensor y, int multiprocessors) {
  with_activation(y.dtype, [&](auto sample) {
    using T = decltype(sample);
    const auto run = version == 7 ? wkv_single_of<7, T> : wkv_single_of<6, T>;
    run(queue, batch, n_head, in, leave, leaves, wkv, y, multiprocessors);
  });
}

}  // namespace fulmar::gpu
