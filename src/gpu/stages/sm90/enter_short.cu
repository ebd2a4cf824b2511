// The beginning of a half block for sequences of few rows. A cluster of blocks takes a sequence, each block
// some channels of all its rows, so that nobody reads what another updates in place; what blocks tell each
// other are moments, through distributed shared memory.
#include <type_traits>

#include "gpu/device/ptx.h"
#include "gpu/products/sm90/ptx.h"
#include "gpu/stages/enter_parts.h"

namespace fulmar::gpu {

namespace {

constexpr int kSpread = 8;  // blocks of a cluster
constexpr int kSpreadWarps = kWarp / kSpread, kSpreadThreads = kSpreadWarps * kWarp;
constexpr int kWarpCols = kWarp * kEnterVector;  // channels of a warp, whose moments are a part of the row's
constexpr int kMostSpreadCols = kWarp * kWarpCols;
constexpr int64_t kMostSpreadRows = 128;

// Moments of rows spread over the cluster: of each warp's channels first, then of all, in order. parts: [row,
// warp of the cluster].
template <int kRows>
__device__ void spread_moments(const Float4 (&v)[kRows], int rows, bool has, int cols,
                               float2 (&parts)[kRows][kWarp], MeanAndScale (&by)[kRows]) {
  const int lane = threadIdx.x % kWarp;
  const int part = static_cast<int>(cluster_rank()) * kSpreadWarps + static_cast<int>(threadIdx.x) / kWarp;
  const auto held = [&](int of) { return static_cast<float>(min(max(cols - of * kWarpCols, 0), kWarpCols)); };
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    if (r >= rows) break;
    const float mean = warp_sum(has ? total(v[r]) : 0.0f) / fmaxf(held(part), 1.0f);
    float squares = 0;
#pragma unroll
    for (const float e : v[r].x) squares += has ? (e - mean) * (e - mean) : 0.0f;
    squares = warp_sum(squares);
    if (lane < kSpread) store_cluster(address_in(lane, &parts[r][part]), make_float2(mean, squares));
  }
  sync_cluster();
  const float count = held(lane);
  const auto all = static_cast<float>(cols);
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    if (r >= rows) break;
    const float2 found = parts[r][lane];
    const float row_mean = warp_sum(found.x * count) / all, away = found.x - row_mean;
    by[r] = {row_mean, rsqrtf(warp_sum(found.y + count * away * away) / all + kLayerNormEps)};
  }
}

template <class T, int kRows>
__global__ void __cluster_dims__(kSpread) __launch_bounds__(kSpreadThreads)
    enter_short_kernel(Batch batch, EnterInputs in, Slots<float> carry,
                       const __grid_constant__ MixPointers mixes, Rows<T> z_out, RingField ring) {
  __shared__ float2 parts[kRows][kWarp];
  pdl_launch_next();
  const int32_t sequence = static_cast<int32_t>(blockIdx.x) / kSpread, slot = batch.slot[sequence];
  const int32_t begin = batch.start[sequence];
  const int rows = batch.start[sequence + 1] - begin;
  const int channel =
      (static_cast<int>(cluster_rank()) * kSpreadThreads + static_cast<int>(threadIdx.x)) * kEnterVector;
  const bool has = channel < in.cols;
  const int c = has ? channel : 0;
  float* carried = carry[slot] + c;
  const Float4 weight = load4(in.weight + c), bias = load4(in.bias + c);
  const Float4 previous = rounded<T>(load4(carried));
  Float4 share[kMostMixes];
#pragma unroll
  for (int m = 0; m < kMostMixes; m++) {
    if (m < mixes.count) share[m] = load_share(mixes, m, c);
  }
  const RingStep step = ring.base != nullptr ? batch.ring[sequence] : RingStep{};
  const bool keeps = step.keeps != 0 && rows > 1;
  sync_cluster();  // all blocks run, so that their shared memory may be written
  pdl_wait();
  Float4 z[kRows];
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    if (r >= rows) break;
    z[r] = load4(in.x + (begin + r) * in.x_stride + c);
    if (in.pending == nullptr) continue;
    const Float4 more = load4(static_cast<const T*>(in.pending) + (begin + r) * in.pending_stride + c);
#pragma unroll
    for (int e = 0; e < kEnterVector; e++) z[r].x[e] += more.x[e];
  }
  MeanAndScale by[kRows];
  spread_moments(z, rows, has, in.cols, parts, by);
  if (!has) return;
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    if (r >= rows) break;
    const int64_t row = begin + r;
    if (in.pending != nullptr) store4(in.x + row * in.x_stride + c, z[r]);
    z[r] = normalised<T>(z[r], weight, bias, by[r]);
    if (z_out.data != nullptr) store4(z_out[row] + c, z[r]);
    if (keeps) store4(reinterpret_cast<T*>(ring.row(slot, 0, step.first + step.held + r)) + c, z[r]);
    if (r + 1 == rows) store4(carried, z[r]);
    store_mixes<T>(mixes, row, c, z[r], r == 0 ? previous : z[r > 0 ? r - 1 : 0],
                   [&](int m) { return share[m]; });
  }
}

}  // namespace

bool suits_enter_short(const Batch& batch, int64_t cols) {
  return !batch.decode_only() && batch.longest <= kMostShortRows && batch.rows <= kMostSpreadRows &&
         cols <= kMostSpreadCols && cols % kEnterVector == 0;
}

void enter_short(const Queue& queue, const Batch& batch, const Norm& norm, Tensor x, Tensor pending,
                 StateField carry, const Mixes& mixes, Tensor z) {
  with_activation(mixes.out[0].dtype, [&](auto sample) {
    using T = decltype(sample);
    const auto start = [&](auto rows) {
      launch(queue, enter_short_kernel<T, rows()>, dim3(static_cast<unsigned>(kSpread * batch.sequences)),
             dim3(kSpreadThreads), 0, batch, inputs_of(norm, x, pending), slots_of<float>(carry),
             pointers_of(mixes), rows_of<T>(z), batch.revocable ? carry.ring : RingField{});
    };
    if (batch.longest <= kMostShortRows / 2) return start(std::integral_constant<int, kMostShortRows / 2>{});
    start(std::integral_constant<int, kMostShortRows>{});
  });
}

}  // namespace fulmar::gpu
