// The pre-mix of a half block for sequences of few rows. A cluster takes a sequence, each of its blocks some
// channels of all its rows, so that no other block reads what it updates in place; blocks exchange moments
// through distributed shared memory.
#include <type_traits>

#include "gpu/device/ptx.h"
#include "gpu/gemm/sm90/ptx.h"
#include "gpu/stages/enter_parts.h"

namespace fulmar::gpu {

namespace {

constexpr int kSpread = 8;                                                            // blocks per cluster
constexpr int kSpreadWarps = kWarp / kSpread, kSpreadThreads = kSpreadWarps * kWarp;  // per group
constexpr int kWarpCols = kWarp * kEnterVector;  // channels per warp, which computes partial moments of them
constexpr int kMostSpreadCols = kWarp * kWarpCols;
constexpr int64_t kMostSpreadRows = 128;
// Up to this many sequences, their rows are divided among groups of threads; more fill the GPU without.
constexpr int64_t kMostGrouped = 8;

// Mean and sum of squared differences of each warp's channels: [row, warp of the cluster].
template <int kRows>
using MomentParts = float2[kRows][kWarp];

// Returns how many channels of a row warp `part` of the cluster has.
__device__ __forceinline__ float held_by(int part, int cols) {
  return static_cast<float>(min(max(cols - part * kWarpCols, 0), kWarpCols));
}

// Writes a warp's partial moments of one row to all blocks of the cluster.
template <int kRows>
__device__ void tell_moments(const Float4& v, bool has, int part, int cols, int row,
                             MomentParts<kRows>& parts) {
  const int lane = threadIdx.x % kWarp;
  const float mean = warp_sum(has ? total(v) : 0.0f) / fmaxf(held_by(part, cols), 1.0f);
  float squares = 0;
#pragma unroll
  for (const float e : v.x) squares += has ? (e - mean) * (e - mean) : 0.0f;
  squares = warp_sum(squares);
  if (lane < kSpread) store_cluster(address_in(lane, &parts[row][part]), make_float2(mean, squares));
}

// Merges the partial moments of a row, in order.
template <int kRows>
__device__ MeanAndScale row_moments(const MomentParts<kRows>& parts, int row, int cols) {
  const int lane = threadIdx.x % kWarp;
  const float count = held_by(lane, cols);
  const auto all = static_cast<float>(cols);
  const float2 found = parts[row][lane];
  const float mean = warp_sum(found.x * count) / all, away = found.x - mean;
  return {mean, rsqrtf(warp_sum(found.y + count * away * away) / all + kLayerNormEps)};
}

// Computes a sequence in one cluster. A group of 128 threads has kEach rows of the block's channels,
// and reads the row before. All reads precede the cluster barrier, all in-place updates follow it.
template <class T, int kGroups, int kEach>
__global__ void __cluster_dims__(kSpread) __launch_bounds__(kGroups* kSpreadThreads)
    enter_short_kernel(Batch batch, EnterInputs in, Slots<float> carry,
                       const __grid_constant__ MixPointers mixes, Rows<T> z_out, RingField ring) {
  __shared__ MomentParts<kGroups * kEach> parts;
  pdl_launch_next();
  const int32_t sequence = static_cast<int32_t>(blockIdx.x) / kSpread, slot = batch.slot[sequence];
  const int32_t begin = batch.start[sequence];
  const int rows = batch.start[sequence + 1] - begin;
  const int thread = static_cast<int>(threadIdx.x) % kSpreadThreads,
            first = static_cast<int>(threadIdx.x) / kSpreadThreads * kEach;
  const int part = static_cast<int>(cluster_rank()) * kSpreadWarps + thread / kWarp;
  const int channel = (static_cast<int>(cluster_rank()) * kSpreadThreads + thread) * kEnterVector;
  const bool has = channel < in.cols;
  const int c = has ? channel : 0;
  float* carried = carry[slot] + c;
  const Float4 weight = load4(in.weight + c), bias = load4(in.bias + c);
  Float4 share[kMostMixes];
#pragma unroll
  for (int m = 0; m < kMostMixes; m++) {
    if (m < mixes.count) share[m] = load_share(mixes, m, c);
  }
  const RingStep step = ring.base != nullptr ? batch.ring[sequence] : RingStep{};
  const bool keeps = step.keeps != 0 && rows > 1;
  Float4 previous{};
  if (first == 0) previous = rounded<T>(load4(carried));
  sync_cluster();  // all blocks are resident: their shared memory may be written
  pdl_wait();
  const auto read = [&](int r) {
    Float4 v = load4(in.x + (begin + r) * in.x_stride + c);
    if (in.pending == nullptr) return v;
    const Float4 more = load4(static_cast<const T*>(in.pending) + (begin + r) * in.pending_stride + c);
#pragma unroll
    for (int e = 0; e < kEnterVector; e++) v.x[e] += more.x[e];
    return v;
  };
  const bool follows = first > 0 && first < rows;
  if (follows) previous = read(first - 1);
  Float4 z[kEach];
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    if (first + i < rows) z[i] = read(first + i);
  }
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    if (first + i < rows) tell_moments(z[i], has, part, in.cols, first + i, parts);
  }
  sync_cluster();
  if (follows) {
    previous = normalised<T>(previous, weight, bias, row_moments(parts, first - 1, in.cols));
  }
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    const int r = first + i;
    if (r >= rows) break;
    const MeanAndScale by = row_moments(parts, r, in.cols);
    if (!has) continue;
    const int64_t row = begin + r;
    if (in.pending != nullptr) store4(in.x + row * in.x_stride + c, z[i]);
    z[i] = normalised<T>(z[i], weight, bias, by);
    if (z_out.data != nullptr) store4(z_out[row] + c, z[i]);
    if (keeps) store4(reinterpret_cast<T*>(ring.row(slot, 0, step.first + step.held + r)) + c, z[i]);
    if (r + 1 == rows) store4(carried, z[i]);
    store_mixes<T>(mixes, row, c, z[i], i == 0 ? previous : z[i > 0 ? i - 1 : 0],
                   [&](int m) { return share[m]; });
  }
}

}  // namespace

bool suits_enter_short(const Batch& batch, int64_t cols) {
  return !batch.decode_only() && batch.longest <= kMostShortRows && batch.rows <= kMostSpreadRows &&
         cols <= kMostSpreadCols && cols % kEnterVector == 0;
}

void enter_short(const Queue& queue, const Batch& batch, const PreMix& to, Tensor pending) {
  const auto& [norm, x, carry, mixes, z] = to;
  with_activation(mixes.out[0].dtype, [&](auto sample) {
    using T = decltype(sample);
    const auto start = [&](auto groups, auto each) {
      launch(queue, enter_short_kernel<T, groups(), each()>,
             dim3(static_cast<unsigned>(kSpread * batch.sequences)), dim3(groups() * kSpreadThreads), 0,
             batch, inputs_of(norm, x, pending), slots_of<float>(carry), pointers_of(mixes), rows_of<T>(z),
             batch.revocable ? carry.ring : RingField{});
    };
    using std::integral_constant;
    constexpr integral_constant<int, 1> kOne;
    constexpr integral_constant<int, 2> kTwo;
    constexpr integral_constant<int, 4> kFour;
    constexpr integral_constant<int, kMostShortRows> kAll;
    static_assert(kMostShortRows == 8);
    if (batch.sequences > kMostGrouped) {
      return batch.longest <= kFour() ? start(kOne, kFour) : start(kOne, kAll);
    }
    if (batch.longest <= kTwo()) return start(kTwo, kOne);
    batch.longest <= kFour() ? start(kFour, kOne) : start(kFour, kTwo);
  });
}

}  // namespace fulmar::gpu
