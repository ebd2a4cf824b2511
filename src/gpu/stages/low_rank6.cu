// RWKV-6's second low-rank GEMMs, [C, R] with small R, with fused tails: the data-dependent mixes of enter6,
// the decay of project6. One kernel for any number of rows: a block keeps its channels' weights in shared
// memory while its warps stride over the rows.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/device/prefetch.h"
#include "gpu/device/ptx.h"
#include "gpu/gemm/skinny.h"
#include "gpu/stages/low_rank.h"

namespace fulmar::gpu {

namespace {

constexpr int kBlockOut = 64;                  // channels per block
constexpr int kLowRank6Tiles = kBlockOut / 8;  // accumulators per warp
constexpr int kPathChannels = 16;              // channels per lane
constexpr int kPathRows = 16;                  // rows per accumulator
constexpr int kLowRank6Warps = 4, kLowRank6Threads = kLowRank6Warps * kWarp;
constexpr int kStepInputs = 32;                      // K of two mma
constexpr int kStepPieces = kLowRank6Tiles * kWarp;  // pieces of eight weights: [tile][lane]
constexpr int kMixed = 5;                            // paths of enter6
constexpr int64_t kEnoughBlocks = 512;               // from here on a block does all paths of its rows
constexpr size_t kLowRankSharedBytes = 48 << 10;

template <class T>
struct Paths {
  int rows, rank, count;
  int each;                   // paths per block
  int groups_each;            // groups of kLowRank6Warps * kPathRows rows per block
  unsigned across;            // blocks beyond this grid.x only prefetch weights
  Rows<const T> low;          // [rows, count * rank]
  const T* weight[kMixed];    // [C, rank]
  const float* base[kMixed];  // [C], added to the product
  T* out[kMixed];             // [rows, C]
  int64_t out_stride;
  Rows<const T> z, previous;  // of the mixes
};

// Maps column `column` of accumulator `tile` to a channel of the block, so that a lane's channels 16q to 16q
// + 15 are adjacent.
__device__ constexpr int channel_of(int tile, int column) {
  return kPathChannels * (column / 2) + 2 * tile + column % 2;
}

// Loads [path][step][tile][lane], in the register order of mma's lanes; zero beyond the rank.
template <class T>
__device__ void fetch_path_weights(const Paths<T>& paths, int first_path, int count, int64_t channel,
                                   uint4* weights) {
  const int steps = (paths.rank + kStepInputs - 1) / kStepInputs;
  for (int i = threadIdx.x; i < count * steps * kStepPieces; i += kLowRank6Threads) {
    const int lane = i % kWarp, tile = i / kWarp % kLowRank6Tiles, step = i / kStepPieces % steps;
    const T* row = paths.weight[first_path + i / (kStepPieces * steps)] +
                   (channel + channel_of(tile, lane / 4)) * paths.rank;
    const int at = step * kStepInputs + lane % 4 * 8;
    const bool inside = at < paths.rank;
    __pipeline_memcpy_async(&weights[i], inside ? row + at : row, 16, inside ? 0 : 16);
  }
  __pipeline_commit();
}

// 16 adjacent channels of one row.
template <class T>
struct LowRankPiece {
  uint4 v[2];
  __device__ static LowRankPiece load(const T* from) {
    const auto* at = reinterpret_cast<const uint4*>(from);
    return {{at[0], at[1]}};
  }
  __device__ void numbers(float (&to)[kPathChannels]) const {
    T e[kPathChannels];
    memcpy(e, v, sizeof(e));
#pragma unroll
    for (int i = 0; i < kPathChannels; i++) to[i] = to_float(e[i]);
  }
  __device__ static void store(T* to, const float (&x)[kPathChannels]) {
    uint32_t word[kPathChannels / 2];
#pragma unroll
    for (int i = 0; i < kPathChannels / 2; i++) word[i] = pack_floats<T>(x[2 * i], x[2 * i + 1]);
    auto* at = reinterpret_cast<uint4*>(to);
    at[0] = make_uint4(word[0], word[1], word[2], word[3]);
    at[1] = make_uint4(word[4], word[5], word[6], word[7]);
  }
};

// Multiplies the lane's two rows of the left operand (low and high), eight inputs per step.
template <class T>
__device__ void multiply_low_rank(const T* low, const T* high, const uint4* weights, int rank,
                                  float (&sum)[kLowRank6Tiles][4]) {
  const int lane = threadIdx.x % kWarp, q = lane % 4;
  for (int at = q * 8; at - q * 8 < rank; at += kStepInputs, weights += kStepPieces) {
    const bool inside = at < rank;
    const uint4 a = inside ? *reinterpret_cast<const uint4*>(low + at) : uint4{};
    const uint4 b = inside ? *reinterpret_cast<const uint4*>(high + at) : uint4{};
#pragma unroll
    for (int tile = 0; tile < kLowRank6Tiles; tile++) {
      const uint4 w = weights[tile * kWarp + lane];
      mma<T>(sum[tile], a.x, b.x, a.y, b.y, w.x, w.y);
      mma<T>(sum[tile], a.z, b.z, a.w, b.w, w.z, w.w);
    }
  }
}

// Computes 16 rows from `first` on, all paths of the block, by one warp.
template <class T, bool kMixes>
__device__ void finish_paths(const Paths<T>& paths, int first, int first_path, int count, int64_t channel,
                             const uint4* weights) {
  const int lane = threadIdx.x % kWarp, g = lane / 4;
  const int64_t c = channel + lane % 4 * kPathChannels;
  const int row[2] = {min(first + g, paths.rows - 1), min(first + g + 8, paths.rows - 1)};
  LowRankPiece<T> z[2], previous[2];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    if (!kMixes) break;
    z[r] = LowRankPiece<T>::load(paths.z[row[r]] + c);
    previous[r] = LowRankPiece<T>::load(paths.previous[row[r]] + c);
  }
  const int pieces = (paths.rank + kStepInputs - 1) / kStepInputs * kStepPieces;
  for (int i = 0; i < count; i++) {
    const int path = first_path + i, low = path * paths.rank;
    float sum[kLowRank6Tiles][4] = {};
    multiply_low_rank<T>(paths.low[row[0]] + low, paths.low[row[1]] + low, weights + i * pieces, paths.rank,
                         sum);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float v[kPathChannels], from[kPathChannels], towards[kPathChannels];
      if (kMixes) z[r].numbers(from), previous[r].numbers(towards);
#pragma unroll
      for (int e = 0; e < kPathChannels; e += 4) {
        const Float4 base = load4(paths.base[path] + c + e);
#pragma unroll
        for (int k = 0; k < 4; k++) {
          v[e + k] = base.x[k] + sum[(e + k) / 2][2 * r + k % 2];
          if (kMixes) v[e + k] = from[e + k] + (towards[e + k] - from[e + k]) * v[e + k];
        }
      }
      if (first + g + 8 * r < paths.rows)
        LowRankPiece<T>::store(paths.out[path] + row[r] * paths.out_stride + c, v);
    }
  }
}

// Computes outputs of some paths. Grid: channels, groups of paths, groups of rows.
template <class T, bool kMixes>
__global__ void __launch_bounds__(kLowRank6Threads)
    low_rank6_kernel(const __grid_constant__ Paths<T> paths, const __grid_constant__ Prefetch ahead) {
  extern __shared__ __align__(16) unsigned char shared[];
  pdl_launch_next();
  if (blockIdx.x >= paths.across) {
    if (blockIdx.y + blockIdx.z == 0) prefetch_part(ahead, blockIdx.x - paths.across, kPrefetchBlocks);
    return;
  }
  auto* weights = reinterpret_cast<uint4*>(shared);
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kBlockOut;
  const int first_path = blockIdx.y * paths.each, count = min(paths.each, paths.count - first_path);
  fetch_path_weights(paths, first_path, count, channel, weights);
  pdl_wait();
  __pipeline_wait_prior(0);
  __syncthreads();
  const int warp = threadIdx.x / kWarp;
  for (int group = 0; group < paths.groups_each; group++) {
    const int first = ((blockIdx.z * paths.groups_each + group) * kLowRank6Warps + warp) * kPathRows;
    if (first >= paths.rows) return;
    finish_paths<T, kMixes>(paths, first, first_path, count, channel, weights);
  }
}

template <bool kMixes, class T>
void launch_paths(const Queue& queue, Paths<T> paths, int64_t cols, const Prefetch& ahead) {
  const int64_t across = cols / kBlockOut, group = kLowRank6Warps * kPathRows,
                groups = (paths.rows + group - 1) / group;
  const size_t path_bytes =
      static_cast<size_t>((paths.rank + kStepInputs - 1) / kStepInputs) * kStepPieces * sizeof(uint4);
  const bool together = across * groups >= kEnoughBlocks && path_bytes * paths.count <= kLowRankSharedBytes;
  paths.each = together ? paths.count : 1;
  paths.groups_each = static_cast<int>(std::max<int64_t>(1, across * groups / kEnoughBlocks));
  paths.across = static_cast<unsigned>(across);
  const dim3 grid(paths.across + (ahead.bytes[0] > 0 ? kPrefetchBlocks : 0),
                  static_cast<unsigned>((paths.count + paths.each - 1) / paths.each),
                  static_cast<unsigned>((groups + paths.groups_each - 1) / paths.groups_each));
  launch(queue, low_rank6_kernel<T, kMixes>, grid, dim3(kLowRank6Threads), path_bytes * paths.each, paths,
         ahead);
}

}  // namespace

bool suits_low_rank6(Tensor low, const Weight& second) {
  constexpr int64_t kMostLowRank = kLowRankSharedBytes / (kStepPieces * sizeof(uint4)) * kStepInputs;
  return suits_skinny(low, second) && second.out % kBlockOut == 0 && second.in <= kMostLowRank;
}

void mix6(const Queue& queue, const TimeMix6& att, Tensor z, Tensor previous, Tensor low,
          std::span<const Tensor, 5> mixed) {
  with_activation(z.dtype, [&](auto sample) {
    using T = decltype(sample);
    Paths<T> paths{};
    paths.rows = static_cast<int>(z.rows);
    paths.rank = static_cast<int>(att.mix_w2[0].in);
    paths.count = kMixed;
    paths.low = {low.as<const T>(), low.stride};
    paths.out_stride = mixed[0].stride;
    for (int i = 0; i < kMixed; i++) {
      const Tensor out = mixed[static_cast<size_t>(i)];
      FULMAR_CHECK(out.stride == paths.out_stride);
      paths.weight[i] = static_cast<const T*>(att.mix_w2[i].data);
      paths.base[i] = att.mix.row<float>(i);
      paths.out[i] = out.as<T>();
    }
    paths.z = {z.as<const T>(), z.stride};
    paths.previous = {previous.as<const T>(), previous.stride};
    launch_paths<true>(queue, paths, z.cols, {});
  });
}

void decay6(const Queue& queue, const LowRank& w, Tensor low, Tensor u, const Prefetch& ahead) {
  with_activation(u.dtype, [&](auto sample) {
    using T = decltype(sample);
    Paths<T> paths{};
    paths.rows = static_cast<int>(u.rows);
    paths.rank = static_cast<int>(w.second.in);
    paths.count = 1;
    paths.low = {low.as<const T>(), low.stride};
    paths.out_stride = u.stride;
    paths.weight[0] = static_cast<const T*>(w.second.data);
    paths.base[0] = w.bias.as<float>();
    paths.out[0] = u.as<T>();
    launch_paths<false>(queue, paths, u.cols, ahead);
  });
}

}  // namespace fulmar::gpu
