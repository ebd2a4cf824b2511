// Between the first low-rank halves and the output product of RWKV-7 for few rows: second halves of the
// low-rank paths, key preparation, recurrence with deferred state writes, head norm, bonus and gate in one
// kernel. A block takes a head of some sequences; its weights and its first state, brought forward by what the
// ring holds, are there before the kernel in front has finished. All rows are prepared at once, so that the
// recurrence goes through them without a barrier: eight lanes hold a row of the state and need no other.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/ptx.h"
#include "gpu/recurrence/wkv_deferred.h"
#include "gpu/stages/attend7_parts.h"
#include "gpu/stages/attend_rows7.h"

namespace fulmar::gpu {

namespace {

constexpr int kMostRowsOfBlock = static_cast<int>(kMostAttendRows);
constexpr int kStateThreads = kHeadSize * kLanesPerRow;  // one row of the state each
constexpr int kStageGroups = kAttendThreads / kWkvThreads;
constexpr int kColumnGap = 4;  // vectors between rows of inputs, so that lanes meet in no bank
static_assert(kStateThreads <= kAttendThreads && kAttendThreads % kWkvThreads == 0);
static_assert(kMostRowsOfBlock <= kProductWarps);

// What comes to a block of each row: the inputs of the paths' products, and its channels of raw products and of
// the first block's value.
enum Part : int { kPartR = kLowRankPaths7, kPartK, kPartV, kPartFirst, kParts };
template <class T>
struct AttendRowsArguments {
  Batch batch;
  bool first_block;
  Rows<const T> part[kParts];       // [rows, R] of the paths, [rows, C]
  int count[kParts];                // elements that a block takes of a row: R or 64; 0: none
  int place[kParts], row_vectors;   // of 16 bytes: where a part begins in a row in shared memory, and a row
  const T* weight[kLowRankPaths7];  // [C, R]
  LayerVectors vectors;
  Rows<T> v_first, y;
};

// A row in shared memory: what its channels' products are, then what the recurrence takes in their place. The
// last words keep rows apart, so that lanes meet in no bank.
union alignas(16) SharedRow {
  float product[kHeadProducts][kHeadSize];
  SpreadToken token;
  float room[sizeof(SpreadToken) / sizeof(float) + 4];
};

template <class T>
__device__ Float2 rounded(const Float2& v) {
  return {{to_float(from_float<T>(v.x[0])), to_float(from_float<T>(v.x[1]))}};
}

// What the warp that prepares a row keeps of two channels, rounded as they are kept in a ring.
struct RowChannels {
  Float2 k, v, u, kk, alpha, gate;
};

// From products to what the recurrence wants, by one warp. parts: the row's.
template <class T, class S>
__device__ RowChannels prepare_row(const AttendRowsArguments<T>& a, int64_t row, int64_t channel,
                                   const HeadVectors& vectors, const uint4* parts, SharedRow& shared) {
  const int c = 2 * (threadIdx.x % kWarp), at = place_of_channel<S>(c);
  const auto raw = [&](Part part) { return load2(reinterpret_cast<const T*>(parts + a.place[part]) + c); };
  RowChannels own;
  own.v = raw(kPartV);
  const auto product = [&](int i) { return load2(shared.product[i] + c); };
  const Float2 decay_raw = product(kDecayPath), rate_raw = product(kRatePath), share = product(kValuePath),
               g0 = product(kGatePath), g1 = product(kGatePath + 1);
  const Float2 w0 = load2(vectors[kW0] + c), a0 = load2(vectors[kA0] + c);
  Float2 rate;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    rate.x[i] = rate_of(rate_raw.x[i], a0.x[i]);
    own.u.x[i] = decay_of(decay_raw.x[i], w0.x[i]);
    own.gate.x[i] = g0.x[i] + g1.x[i];
  }
  own.u = rounded<T>(own.u);
  own.gate = rounded<T>(own.gate);
  if (a.first_block) {
    store2(a.v_first[row] + channel + c, own.v.x[0], own.v.x[1]);
  } else {
    const Float2 v0 = load2(vectors[kV0] + c), v_first = raw(kPartFirst);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      own.v.x[i] = mixed_value(own.v.x[i], v_first.x[i], value_share(share.x[i], v0.x[i]));
    }
    own.v = rounded<T>(own.v);
  }
  const PreparedKey key = prepare_key(raw(kPartK), rate, vectors[kKk] + c, vectors[kKa] + c);
  own.k = rounded<T>(key.k);
  own.kk = rounded<T>(key.kk);
  own.alpha = rounded<T>(rate);
  __syncwarp();  // all have read the products
  SpreadToken& token = shared.token;
  const Float2 r = raw(kPartR);
  store2(token.r + at, r.x[0], r.x[1]);
  store2(token.w + at, decay<7>(own.u.x[0]), decay<7>(own.u.x[1]));
  store2(token.k + at, own.k.x[0], own.k.x[1]);
  store2(token.v + c, own.v.x[0], own.v.x[1]);
  store2(token.first + at, -own.kk.x[0], -own.kk.x[1]);
  store2(token.second + at, own.kk.x[0] * own.alpha.x[0], own.kk.x[1] * own.alpha.x[1]);
  return own;
}

// A prepared row into the ring, but for what it removed.
template <class T>
__device__ void keep_row(const RowChannels& own, std::byte* row) {
  const int c = 2 * (threadIdx.x % kWarp);
  const auto keep = [&](int which, const Float2& v) { store2(kept_vector<T>(row, which) + c, v.x[0], v.x[1]); };
  keep(kKeptK, own.k);
  keep(kKeptV, own.v);
  keep(kKeptU, own.u);
  keep(kKeptKk, own.kk);
  keep(kKeptAlpha, own.alpha);
}

// One sequence's part of a block's work.
struct Walk {
  int64_t slot;
  int begin, rows;  // of the step
  RingStep step;
};
__device__ __forceinline__ Walk walk_of(const Batch& batch, int sequence) {
  const RingStep step = batch.ring != nullptr ? ring_step_of(batch, sequence) : RingStep{};
  const int begin = batch.start[sequence];
  return {batch.slot[sequence], begin, batch.start[sequence + 1] - begin, step};
}

// The parts of the block's rows; zero behind a path's inputs to the end of their last piece.
template <class T>
__device__ void bring_parts(const AttendRowsArguments<T>& a, int64_t channel, int64_t first_row, int rows,
                            uint4* to) {
  const int used = a.row_vectors - kColumnGap;
  for (int i = threadIdx.x; i < rows * used; i += kAttendThreads) {
    const int row = i / used, at = i % used;
    int part = kParts - 1;
    while (part > 0 && at < a.place[part]) part--;
    const int vector = at - a.place[part];
    uint4 v{};
    if (vector * 8 < a.count[part]) {
      const T* from = a.part[part][first_row + row] + (part < kLowRankPaths7 ? 0 : channel);
      v = reinterpret_cast<const uint4*>(from)[vector];
    }
    to[row * a.row_vectors + at] = v;
  }
}

template <class T, class S>
__global__ void __launch_bounds__(kAttendThreads)
    attend_rows7_kernel(const __grid_constant__ AttendRowsArguments<T> a, Slots<S> slots,
                        const __grid_constant__ Rings rings, int most_rows) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& vectors = *reinterpret_cast<HeadVectors*>(bytes);
  auto* const rows_shared = reinterpret_cast<SharedRow*>(bytes + sizeof(HeadVectors));      // [most_rows]
  auto* const brought = reinterpret_cast<uint4*>(rows_shared + most_rows);                     // [most_rows]
  auto* const replayed = reinterpret_cast<ReplayedRow*>(brought + most_rows * a.row_vectors);  // those held
  const int64_t head = blockIdx.x, channel = head * kHeadSize;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kLanesPerRow,
            value = threadIdx.x / kLanesPerRow;
  const bool walks = threadIdx.x < kStateThreads;
  pdl_launch_next();
  const Role role = role_of(warp);
  const int rank = a.count[role.path];
  // Into the cache at once; into registers, of which replaying wants many, behind that.
  const T* const tile = a.weight[role.path] + (channel + role.tile * 16) * rank;
  if (threadIdx.x % kWarp == 0 && role.share == 0 && rank > 0) {
    prefetch_l2(tile, static_cast<uint32_t>(16 * rank * sizeof(T)));
  }
  const int sequences = static_cast<int>(a.batch.sequences), parts = static_cast<int>(gridDim.y);
  const int first = static_cast<int>(blockIdx.y) * sequences / parts,
            last = (static_cast<int>(blockIdx.y) + 1) * sequences / parts;
  const int begin = a.batch.start[first], rows = a.batch.start[last] - begin;
  const bool prepares = warp < rows;
  bring_vectors(a.vectors, channel, vectors);
  Walk walk = walk_of(a.batch, first);
  StateRow<S> stored;
  const auto own_state = [&] { return slots[walk.slot] + channel * kHeadSize; };
  const auto fetch = [&] {
    if (walks) stored = fetch_state_row(own_state() + value * kHeadSize, lane);
  };
  // The sequence's state as it is behind the rows that its ring holds.
  float state[1][kKeys];
  const auto bring_forward = [&] {
    const RingStep step = walk.step;
    if (step.held > 0) {
      std::byte* const ring = rings.head(walk.slot, head);
      stage_rows<7, T, S, kStageGroups>([&](int i) { return rings.row(ring, step.first + i); }, step.held,
                                        replayed);
      __syncthreads();
    }
    if (!walks) return;
    widen(stored, state[0]);
    replay_rows<7>(state, replayed, step.held, rings.every, step.write_at, own_state());
  };
  fetch();
  bring_forward();
  const WeightPieces weights = fetch_weights(tile, rank, role);
  pdl_wait();
  bring_parts(a, channel, begin, rows, brought);
  __syncthreads();
  {
    const int g = fragment_group(), q = fragment_place();
    float sum[4] = {};
    const uint4* column = brought + min(g, rows - 1) * a.row_vectors + a.place[role.path];
    multiply_pieces<T>(weights, role, rank, column, sum);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = Accumulator::column(q, i);
      if (row >= rows) continue;
      rows_shared[row].product[role.path + role.share][role.tile * 16 + Accumulator::row(g, i)] = sum[i];
    }
  }
  __syncthreads();
  RowChannels own;
  if (prepares) {
    own = prepare_row<T, S>(a, begin + warp, channel, vectors, brought + warp * a.row_vectors, rows_shared[warp]);
  }
  __syncthreads();
  for (int sequence = first;;) {
    const RingStep step = walk.step;
    std::byte* const ring = step.keeps != 0 ? rings.head(walk.slot, head) : nullptr;
    for (int i = 0; walks && i < walk.rows; i++) {
      float removed[1];
      update_state<7>(state, rows_shared[walk.begin - begin + i].token, removed);
      if (step.keeps == 0) continue;
      keep_removed<7, T>(removed, rings.row(ring, step.first + step.held + i));
      // Half states: as if they were written behind every M-th row.
      if ((step.held + i + 1) % rings.every == 0) round_state<S>(state);
    }
    if (walks && step.keeps == 0) store_state(own_state(), state);
    if (++sequence == last) break;
    walk = walk_of(a.batch, sequence);
    fetch();
    if (a.batch.ring != nullptr) __syncthreads();  // nobody reads the rows of the sequence in front any more
    bring_forward();
  }
  __syncthreads();
  if (!prepares) return;
  const int64_t row = begin + warp;
  write_head<7, T, S>(leave_weights(vectors), true, own.gate, 0, rows_shared[warp].token, a.y[row] + channel);
  if (a.batch.ring == nullptr) return;
  const Walk of = walk_of(a.batch, a.batch.sequence_of[row]);
  if (of.step.keeps == 0) return;
  keep_row<T>(own, rings.row(rings.head(of.slot, head),
                             of.step.first + of.step.held + static_cast<int>(row) - of.begin));
}

}  // namespace

void attend_rows7(const Queue& queue, const Batch& batch, const TimeMix7& att, bool first_block,
                  const LowRows7& lows, const RawRows7& raw, Tensor v_first, StateField wkv, Tensor y,
                  int multiprocessors) {
  FULMAR_CHECK(batch.rows <= kMostAttendRows && suits_attend7(att, first_block));
  FULMAR_CHECK(batch.ring == nullptr || (wkv.ring.base != nullptr && wkv.ring.layout.dtype == y.dtype));
  const Tensor low[kLowRankPaths7] = {lows.w, lows.a, lows.v, lows.g};
  const LowRank* paths[kLowRankPaths7] = {&att.w, &att.a, &att.v, &att.g};
  with_activation(y.dtype, [&](auto sample) {
    using T = decltype(sample);
    AttendRowsArguments<T> a{};
    a.batch = batch;
    a.first_block = first_block;
    const auto take = [&](int part, Tensor rows, int64_t count) {
      a.part[part] = {rows.as<const T>(), rows.stride};
      a.count[part] = static_cast<int>(count);
      a.place[part] = a.row_vectors;
      a.row_vectors += (a.count[part] + kAttendPiece - 1) / kAttendPiece * kAttendPiece / 8;
    };
    for (int i = 0; i < kLowRankPaths7; i++) {
      const bool taken = i != kValuePath || !first_block;
      take(i, taken ? low[i] : Tensor{}, taken ? paths[i]->second.in : 0);
      a.weight[i] = static_cast<const T*>(paths[i]->second.data);
    }
    take(kPartR, raw.r, kHeadSize);
    take(kPartK, raw.k, kHeadSize);
    take(kPartV, raw.v, kHeadSize);
    take(kPartFirst, v_first, first_block ? 0 : kHeadSize);
    a.row_vectors += kColumnGap;
    a.vectors = layer_vectors(att);
    a.v_first = rows_of<T>(v_first);
    a.y = rows_of<T>(y);
    // As many blocks of a head as there are multiprocessors for; each multiplies for its own rows.
    const int64_t parts = std::clamp<int64_t>(multiprocessors / att.n_head, 1, batch.sequences);
    const auto most_rows = static_cast<int>(batch.rows);
    const size_t bytes = sizeof(HeadVectors) + static_cast<size_t>(most_rows) * sizeof(SharedRow) +
                         static_cast<size_t>(most_rows * a.row_vectors) * sizeof(uint4) +
                         (batch.ring != nullptr ? replayed_bytes(wkv.ring.layout) : 0);
    const dim3 grid(static_cast<unsigned>(att.n_head), static_cast<unsigned>(parts));
    const auto start = [&](auto element) {
      using S = decltype(element);
      allow_shared(attend_rows7_kernel<T, S>, bytes);
      launch(queue, attend_rows7_kernel<T, S>, grid, dim3(kAttendThreads), bytes, a, slots_of<S>(wkv),
             rings_of(wkv.ring), most_rows);
    };
    wkv.dtype == DType::f32 ? start(float{}) : start(Half{});
  });
}

}  // namespace fulmar::gpu
