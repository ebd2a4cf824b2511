// The pre-mix of each half block: residual add, norm, token shift and all mixes. One kernel where every
// sequence has one row. With several rows, a block processes consecutive ones and keeps the previous
// normalised row; what its first row needs is saved by a kernel before, since x is updated in place.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/peer_wait.h"
#include "gpu/device/prefetch.h"
#include "gpu/device/ptx.h"
#include "gpu/math/head_math.h"
#include "gpu/math/moments.h"
#include "gpu/stages/enter_parts.h"

namespace fulmar::gpu {

namespace {

constexpr int64_t kMostWideRows = 132;  // up to here a block is as wide as its row
constexpr int64_t kMostEarlyRows = 64;  // up to here mix vectors are loaded before pdl_wait

template <int kVectors>
constexpr int kMostThreads = kVectors == 2 ? 512 : 1024;

// Stands for a PeerPull where the layer is not split: `pending` is the whole addend.
struct NoPull {};
template <class Pull>
constexpr bool kPulls = std::is_same_v<Pull, PeerPull>;

// A row in flight: x and the pending addends (of both ranks, if two), as stored.
template <class T, int kVectors, class Pull>
struct RowAhead {
  Float4 x[kVectors];
  uint2 pending[kVectors], theirs[kPulls<Pull> ? kVectors : 1];

  __device__ __forceinline__ void fetch_own(const EnterInputs& in, int64_t r,
                                            const RowPiece<kVectors>& piece) {
    const float* from = in.x + r * in.x_stride;
    const T* added = static_cast<const T*>(in.pending) + r * in.pending_stride;
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      if (!piece.has(i)) continue;
      x[i] = load4(from + piece.at(i));
      if (in.pending != nullptr) pending[i] = *reinterpret_cast<const uint2*>(added + piece.at(i));
    }
  }
  // Loads the other rank's addend. Call after begin_pull.
  __device__ __forceinline__ void fetch_theirs(const EnterInputs& in, int64_t r,
                                               const RowPiece<kVectors>& piece, const Pull& pull) {
    if constexpr (kPulls<Pull>) {
      const T* added = static_cast<const T*>(pull.theirs) + r * in.pending_stride;
#pragma unroll
      for (int i = 0; i < kVectors; i++) {
        if (piece.has(i)) theirs[i] = __ldcv(reinterpret_cast<const uint2*>(added + piece.at(i)));
      }
    }
  }
  __device__ __forceinline__ void sum(const EnterInputs& in, Float4 (&v)[kVectors]) const {
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      v[i] = x[i];
      if (in.pending == nullptr) continue;
      Float4 p = load4(reinterpret_cast<const T*>(&pending[i]));
      if constexpr (kPulls<Pull>) {
        const Float4 other = load4(reinterpret_cast<const T*>(&theirs[i]));
#pragma unroll
        for (int e = 0; e < kEnterVector; e++) p.x[e] += other.x[e];
      }
#pragma unroll
      for (int e = 0; e < kEnterVector; e++) v[i].x[e] += p.x[e];
    }
  }
};

// Sets v = x + pending and stores it to x.
template <class T, int kVectors, class Pull>
__device__ void absorb(const EnterInputs& in, int64_t r, const RowPiece<kVectors>& piece, const Pull& pull,
                       Float4 (&v)[kVectors]) {
  RowAhead<T, kVectors, Pull> row;
  row.fetch_own(in, r, piece);
  if constexpr (kPulls<Pull>) begin_pull(pull);
  row.fetch_theirs(in, r, piece, pull);
  row.sum(in, v);
  if (in.pending == nullptr) return;
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (piece.has(i)) store4(in.x + r * in.x_stride + piece.at(i), v[i]);
  }
}

// A thread's pieces of the norm and mix vectors, in registers where the row is short enough.
template <int kVectors>
struct EnterWeights {
  static constexpr bool kKept = kVectors <= 2;
  const EnterInputs& in;
  const MixPointers& mixes;
  const RowPiece<kVectors>& piece;
  Float4 weight[kVectors], bias[kVectors], share[kMostMixes][kVectors];

  __device__ __forceinline__ EnterWeights(const EnterInputs& in, const MixPointers& mixes,
                                          const RowPiece<kVectors>& piece)
      : in(in), mixes(mixes), piece(piece) {
    if constexpr (kKept) {
#pragma unroll
      for (int i = 0; i < kVectors; i++) {
        if (!piece.has(i)) continue;
        weight[i] = load4(in.weight + piece.at(i)), bias[i] = load4(in.bias + piece.at(i));
#pragma unroll
        for (int m = 0; m < kMostMixes; m++) {
          if (m < mixes.count) share[m][i] = load_share(mixes, m, piece.at(i));
        }
      }
    }
  }
  __device__ __forceinline__ Float4 weight_of(int i) const {
    return kKept ? weight[i] : load4(in.weight + piece.at(i));
  }
  __device__ __forceinline__ Float4 bias_of(int i) const {
    return kKept ? bias[i] : load4(in.bias + piece.at(i));
  }
  __device__ __forceinline__ Float4 share_of(int m, int i) const {
    return kKept ? share[m][i] : load_share(mixes, m, piece.at(i));
  }
};

// Computes one row a block, each the only one of its sequence. What does not depend on the previous kernel is
// loaded before pdl_wait. Three blocks of 512 threads per SM: 320 rows in one wave. kEarlyMixes: loads mix
// vectors early, too; worth the registers only with many mixes.
template <class T, int kVectors, bool kEarlyMixes, class Pull>
__global__ void __launch_bounds__(kMostThreads<kVectors>, kVectors == 2 ? 3 : 1)
    enter_single_kernel(Batch batch, EnterInputs in, const __grid_constant__ Pull pull, Slots<float> carry,
                        const __grid_constant__ MixPointers mixes, Rows<T> z_out,
                        const __grid_constant__ Prefetch ahead) {
  if (blockIdx.x >= batch.rows) {
    pdl_launch_next();
    prefetch_part(ahead, blockIdx.x - static_cast<unsigned>(batch.rows), kPrefetchBlocks);
    return;
  }
  const int64_t r = blockIdx.x;
  const RowPiece<kVectors> piece{in.cols};
  float* carried = carry[batch.slot[r]];
  pdl_launch_next();
  constexpr bool kEarly = kVectors == 1;  // registers suffice for all of it
  Float4 v[kVectors], weight, bias, previous[kVectors], share[kEarlyMixes ? kMostMixes : 1];
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (!piece.has(i)) continue;
    if (kEarly) weight = load4(in.weight + piece.at(i)), bias = load4(in.bias + piece.at(i));
    previous[i] = load4(carried + piece.at(i));
#pragma unroll
    for (int m = 0; m < kMostMixes; m++) {
      if (m >= mixes.count) break;
      if (kEarlyMixes) {
        share[m] = load_share(mixes, m, piece.at(i));
      } else if (mixes.mix[m] != nullptr) {
        prefetch_l2(mixes.mix[m] + piece.at(i));
      }
    }
  }
  pdl_wait();
  absorb<T>(in, r, piece, pull, v);
  __shared__ float2 parts[kWarp];
  const MeanAndScale by = moments(v, piece, parts);
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (!piece.has(i)) continue;
    if (!kEarly) weight = load4(in.weight + piece.at(i)), bias = load4(in.bias + piece.at(i));
    const Float4 z = normalised<T>(v[i], weight, bias, by);
    store4(carried + piece.at(i), z);
    if (z_out.data != nullptr) store4(z_out[r] + piece.at(i), z);
    store_mixes<T>(mixes, r, piece.at(i), z, rounded<T>(previous[i]), [&](int m) {
      return kEarlyMixes ? share[kEarlyMixes ? m : 0] : load_share(mixes, m, piece.at(i));
    });
  }
  if constexpr (kPulls<Pull>) {
    if (threadIdx.x == 0) end_pull(pull, static_cast<uint32_t>(batch.rows));
  }
}

// Does the same for many rows with an addend to be pulled: a block processes several rows, and prefetches the
// next one over the link while it computes one.
template <class T, int kVectors>
__global__ void __launch_bounds__(kMostThreads<kVectors>)
    enter_singles_kernel(Batch batch, EnterInputs in, const __grid_constant__ PeerPull pull,
                         Slots<float> carry, const __grid_constant__ MixPointers mixes, Rows<T> z_out) {
  __shared__ float2 parts[2][kWarp];
  pdl_launch_next();
  const RowPiece<kVectors> piece{in.cols};
  const EnterWeights<kVectors> weights(in, mixes, piece);
  RowAhead<T, kVectors, PeerPull> ahead;
  Float4 carried_ahead[kVectors];
  const auto fetch_carried = [&](int64_t r) {
    const float* carried = carry[batch.slot[r]];
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      if (piece.has(i)) carried_ahead[i] = load4(carried + piece.at(i));
    }
  };
  fetch_carried(blockIdx.x);
  pdl_wait();
  ahead.fetch_own(in, blockIdx.x, piece);
  begin_pull(pull);
  ahead.fetch_theirs(in, blockIdx.x, piece, pull);
  unsigned turn = 0;
  for (int64_t r = blockIdx.x; r < batch.rows; r += gridDim.x) {
    Float4 v[kVectors], previous[kVectors];
    ahead.sum(in, v);
#pragma unroll
    for (int i = 0; i < kVectors; i++) previous[i] = rounded<T>(carried_ahead[i]);
    if (const int64_t next = r + gridDim.x; next < batch.rows) {
      ahead.fetch_own(in, next, piece);
      ahead.fetch_theirs(in, next, piece, pull);
      fetch_carried(next);
    }
    float* carried = carry[batch.slot[r]];
    const MeanAndScale by = moments(v, piece, parts[turn++ % 2]);
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      if (!piece.has(i)) continue;
      const int c = piece.at(i);
      store4(in.x + r * in.x_stride + c, v[i]);
      const Float4 z = normalised<T>(v[i], weights.weight_of(i), weights.bias_of(i), by);
      store4(carried + c, z);
      if (z_out.data != nullptr) store4(z_out[r] + c, z);
      store_mixes<T>(mixes, r, c, z, previous[i], [&](int m) { return weights.share_of(m, i); });
    }
  }
  if (threadIdx.x == 0) end_pull(pull, gridDim.x);
}

// Rows that blocks of enter_rows_kernel overwrite before others read them, saved beforehand: the row before
// each block's first one and, for a sequence that begins in one block and ends in another, its carried
// vector.
template <class T>
struct Fronts {
  Rows<T> first, carried;  // a row for each block
};

template <class T, int kVectors, class Pull>
__global__ void __launch_bounds__(kMostThreads<kVectors>)
    enter_fronts_kernel(Batch batch, EnterInputs in, const __grid_constant__ Pull pull, Slots<float> carry,
                        Fronts<T> fronts, int64_t each) {
  __shared__ float2 parts[kWarp];
  pdl_launch_next();
  pdl_wait();
  if constexpr (kPulls<Pull>) begin_pull(pull);
  const RowPiece<kVectors> piece{in.cols};
  const int64_t begin = blockIdx.x * each, end = min(begin + each, batch.rows);
  const int32_t sequence = batch.sequence_of[begin], last = batch.sequence_of[end - 1];
  const auto copy_carried = [&](int32_t from, T* to) {
    const float* carried = carry[batch.slot[from]];
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      if (piece.has(i)) store4(to + piece.at(i), load4(carried + piece.at(i)));
    }
  };
  if (batch.start[last] > begin && batch.start[last + 1] > end)
    copy_carried(last, fronts.carried[blockIdx.x]);
  T* first = fronts.first[blockIdx.x];
  if (batch.start[sequence] == begin) return copy_carried(sequence, first);
  RowAhead<T, kVectors, Pull> ahead;
  ahead.fetch_own(in, begin - 1, piece);
  ahead.fetch_theirs(in, begin - 1, piece, pull);
  Float4 v[kVectors];
  ahead.sum(in, v);
  const MeanAndScale by = moments(v, piece, parts);
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (!piece.has(i)) continue;
    const int c = piece.at(i);
    store4(first + c, normalised<T>(v[i], load4(in.weight + c), load4(in.bias + c), by));
  }
}

// Processes `each` consecutive rows in order, prefetching the next row.
template <class T, int kVectors, class Pull>
__global__ void __launch_bounds__(kMostThreads<kVectors>)
    enter_rows_kernel(Batch batch, EnterInputs in, const __grid_constant__ Pull pull, Slots<float> carry,
                      const __grid_constant__ MixPointers mixes, Rows<T> z_out, Fronts<T> fronts,
                      int64_t each) {
  __shared__ float2 parts[2][kWarp];
  pdl_launch_next();
  const RowPiece<kVectors> piece{in.cols};
  const EnterWeights<kVectors> weights(in, mixes, piece);
  pdl_wait();
  const int64_t begin = blockIdx.x * each, end = min(begin + each, batch.rows);
  RowAhead<T, kVectors, Pull> ahead;
  const auto fetch = [&](int64_t r) {
    ahead.fetch_own(in, r, piece);
    ahead.fetch_theirs(in, r, piece, pull);
  };
  if constexpr (kPulls<Pull>) begin_pull(pull);
  fetch(begin);
  int32_t sequence = batch.sequence_of[begin];
  int64_t sequence_end = batch.start[sequence + 1];
  float* carried = carry[batch.slot[sequence]];
  Float4 v[kVectors], previous[kVectors];
  const auto see = [&](const auto* from) {
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      if (piece.has(i)) previous[i] = rounded<T>(load4(from + piece.at(i)));
    }
  };
  see(fronts.first[blockIdx.x]);
  for (int64_t r = begin; r < end; r++) {
    ahead.sum(in, v);
    if (r + 1 < end) fetch(r + 1);
    if (r == sequence_end) {
      sequence = batch.sequence_of[r];
      sequence_end = batch.start[sequence + 1];
      carried = carry[batch.slot[sequence]];
      sequence_end > end ? see(fronts.carried[blockIdx.x]) : see(carried);
    }
    const MeanAndScale by = moments(v, piece, parts[r % 2]);
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      if (!piece.has(i)) continue;
      const int c = piece.at(i);
      if (in.pending != nullptr) store4(in.x + r * in.x_stride + c, v[i]);
      const Float4 z = normalised<T>(v[i], weights.weight_of(i), weights.bias_of(i), by);
      if (z_out.data != nullptr) store4(z_out[r] + c, z);
      if (r + 1 == sequence_end) store4(carried + c, z);
      store_mixes<T>(mixes, r, c, z, previous[i], [&](int m) { return weights.share_of(m, i); });
      previous[i] = z;
    }
  }
  if constexpr (kPulls<Pull>) {
    if (threadIdx.x == 0) end_pull(pull, gridDim.x);
  }
}

// Calls f(pieces per thread, threads) for blocks of one row.
template <class F>
void with_enter_block(bool wide, int64_t cols, F&& f) {
  const int64_t vectors = (cols + kEnterVector - 1) / kEnterVector;
  const auto with = [&](auto each) {
    const int64_t threads = (vectors + each() - 1) / each();
    FULMAR_CHECK(threads <= kMostThreads<each()>);
    f(each, dim3(static_cast<unsigned>((threads + kWarp - 1) / kWarp * kWarp)));
  };
  using std::integral_constant;
  if (wide && vectors <= 1024) return with(integral_constant<int, 1>{});
  if (vectors <= 1024) return with(integral_constant<int, 2>{});
  if (vectors <= 4096) return with(integral_constant<int, 4>{});
  with(integral_constant<int, 8>{});
}

// Calls f(PeerPull) or f(NoPull).
template <class F>
void with_pull(const EnterAddend& addend, F&& f) {
  addend.pull != nullptr ? f(*addend.pull) : f(NoPull{});
}

template <class T>
Fronts<T> fronts_of(const EnterPlan& plan) {
  return {rows_of<T>(plan.fronts), rows_of<T>(plan.fronts.slice_rows(plan.blocks, plan.blocks))};
}

}  // namespace

// Plans one wave of blocks, with as few rows each as that allows: a block loads vectors into registers, and
// the row before, once for all of its rows.
EnterPlan plan_enter(const Batch& batch, int64_t cols, int multiprocessors, bool fixed_order) {
  const bool wide = fixed_order || batch.rows <= kMostWideRows;
  if (batch.decode_only()) {
    return {.pulling = batch.rows > multiprocessors ? multiprocessors : 0, .wide = wide};
  }
  constexpr int64_t kColsAtOnce = 4096;  // per SM
  const int64_t blocks = multiprocessors * std::max<int64_t>(kColsAtOnce / cols, 1);
  const int64_t each = (batch.rows + blocks - 1) / blocks;
  return {each, (batch.rows + each - 1) / each, 0, wide};
}

void enter_fronts(const Queue& queue, const Batch& batch, const PreMix& to, const EnterAddend& addend,
                  const EnterPlan& plan) {
  const EnterInputs in = inputs_of(to.norm, to.x, addend.pending);
  const dim3 blocks(static_cast<unsigned>(plan.blocks));
  with_activation(plan.fronts.dtype, [&](auto sample) {
    using T = decltype(sample);
    with_enter_block(plan.wide, to.x.cols, [&](auto each, dim3 block) {
      with_pull(addend, [&](const auto& pull) {
        using Pull = std::remove_cvref_t<decltype(pull)>;
        launch(queue, enter_fronts_kernel<T, each(), Pull>, blocks, block, 0, batch, in, pull,
               slots_of<float>(to.carry), fronts_of<T>(plan), plan.each);
      });
    });
  });
}

void enter(const Queue& queue, const Batch& batch, const PreMix& to, const EnterAddend& addend,
           const EnterPlan& plan, const Prefetch& ahead) {
  const auto& [norm, x, carry, mixes, z] = to;
  const MixPointers pointers = pointers_of(mixes);
  const EnterInputs in = inputs_of(norm, x, addend.pending);
  const dim3 grid(static_cast<unsigned>(batch.rows));
  const auto carried = slots_of<float>(carry);
  with_activation(mixes.out[0].dtype, [&](auto sample) {
    using T = decltype(sample);
    with_enter_block(plan.wide, x.cols, [&](auto each, dim3 block) {
      with_pull(addend, [&](const auto& pull) {
        using Pull = std::remove_cvref_t<decltype(pull)>;
        if (!batch.decode_only()) {
          const dim3 blocks(static_cast<unsigned>(plan.blocks));
          launch(queue, enter_rows_kernel<T, each(), Pull>, blocks, block, 0, batch, in, pull, carried,
                 pointers, rows_of<T>(z), fronts_of<T>(plan), plan.each);
          return;
        }
        if constexpr (kPulls<Pull> && each() <= 2) {  // more would not fit in registers
          if (plan.pulling > 0) {
            launch(queue, enter_singles_kernel<T, each()>, dim3(static_cast<unsigned>(plan.pulling)), block,
                   0, batch, in, pull, carried, pointers, rows_of<T>(z));
            return;
          }
        }
        const dim3 with_ahead(grid.x + (ahead.bytes[0] > 0 ? kPrefetchBlocks : 0));
        const auto start = [&](auto early) {
          launch(queue, enter_single_kernel<T, each(), early(), Pull>, with_ahead, block, 0, batch, in, pull,
                 carried, pointers, rows_of<T>(z), ahead);
        };
        if constexpr (each() == 1) {
          if (mixes.count == kMostMixes && batch.rows <= kMostEarlyRows) {
            start(std::true_type{});
            return;
          }
        }
        start(std::false_type{});
      });
    });
  });
}

}  // namespace fulmar::gpu
