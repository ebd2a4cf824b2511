// relu² feed-forward of two to eight rows with 16-bit weights, fused into one kernel and a reduction: every
// block streams its part of the key matrix past inputs in registers, and at once multiplies the hidden
// channels that relu² leaves nonzero in any row by their rows of the value matrix (stored transposed, [F,
// C]). One block per SM keeps the partial sums few, which sum_parts adds up in order.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "gpu/device/block_place.h"
#include "gpu/device/element.h"
#include "gpu/device/equal_share.h"
#include "gpu/device/fragment.h"
#include "gpu/device/ptx.h"
#include "gpu/gemm/skinny.h"
#include "gpu/gemm/sparse_step.h"
#include "gpu/stages/ffn_rows.h"

namespace fulmar::gpu {

namespace {

constexpr int kFfnRowsWarps = 16;
constexpr int kFfnRowsThreads = kFfnRowsWarps * kWarp;
constexpr int kHiddenTile = 16;      // hidden channels of a tile
constexpr int kMostHiddenTiles = 9;  // per block: F = 16,384 on a GPU of 114 SMs
constexpr int kInputPiece = 64;      // K of one piece
constexpr int kMostInputPieces = 4;  // per warp, in registers
constexpr int kRowColumns = 8;       // N of an mma: the rows
constexpr int kTileNumbers = kHiddenTile * kRowColumns;
constexpr int kMostHidden = kMostHiddenTiles * kHiddenTile;
constexpr int kItemsAhead = 4;  // steps of the value GEMM in flight

template <class T>
struct FfnRowsArguments {
  Rows<const T> in;      // [R, K]
  const T *key, *value;  // [F, K]; [F, C]
  float* partial;        // [blocks, R, C]
  int rows, k, cols, tiles;
};

using HiddenTiles = EqualShare;  // a block's tiles of hidden channels

// Computes part[tile][warp][channel][row], each warp's partial sums (split-K within the block). Weights of
// the next tile are in flight while one is multiplied; those of the first are loaded before the previous
// kernel has finished (PDL).
template <class T, int kPieces>
__device__ void stream_key_tiles(const FfnRowsArguments<T>& a, const HiddenTiles& own, float* part) {
  const int warp = threadIdx.x / kWarp, g = fragment_group(), q = fragment_place();
  const int pieces = a.k / kInputPiece;
  constexpr int kPieceVectors = kInputPiece / 8;
  const auto has = [&](int p) { return warp + p * kFfnRowsWarps < pieces; };
  const auto* low =
      reinterpret_cast<const uint4*>(a.key + static_cast<int64_t>(own.first * kHiddenTile + g) * a.k) +
      warp * kPieceVectors + q;
  const int high = a.k;  // offset of eight rows, in vectors
  const int next_tile = 2 * a.k;
  uint4 w[kPieces][4], x[kPieces][2];  // (low row, high row) x (first, second half of the piece); the inputs
  const auto fetch = [&](uint4(&to)[4], int p) {
    const uint4* at = low + p * kFfnRowsWarps * kPieceVectors;
    to[0] = __ldcs(at), to[1] = __ldcs(at + 4);
    to[2] = __ldcs(at + high), to[3] = __ldcs(at + high + 4);
  };
#pragma unroll
  for (int p = 0; p < kPieces; p++) {
    if (has(p) && own.count > 0) fetch(w[p], p);
  }
  pdl_wait();
  const auto* row = reinterpret_cast<const uint4*>(a.in[min(g, a.rows - 1)]) + warp * kPieceVectors + q;
#pragma unroll
  for (int p = 0; p < kPieces; p++) {
    const bool inside = has(p) && g < a.rows;
    x[p][0] = inside ? row[p * kFfnRowsWarps * kPieceVectors] : uint4{};
    x[p][1] = inside ? row[p * kFfnRowsWarps * kPieceVectors + 4] : uint4{};
  }
  for (int tile = 0; tile < own.count; tile++) {
    low += next_tile;
    float sum[4] = {};
#pragma unroll
    for (int p = 0; p < kPieces; p++) {
      if (!has(p)) break;
      mma<T>(sum, w[p][0].x, w[p][2].x, w[p][0].y, w[p][2].y, x[p][0].x, x[p][0].y);
      mma<T>(sum, w[p][0].z, w[p][2].z, w[p][0].w, w[p][2].w, x[p][0].z, x[p][0].w);
      mma<T>(sum, w[p][1].x, w[p][3].x, w[p][1].y, w[p][3].y, x[p][1].x, x[p][1].y);
      mma<T>(sum, w[p][1].z, w[p][3].z, w[p][1].w, w[p][3].w, x[p][1].z, x[p][1].w);
      if (tile + 1 < own.count) fetch(w[p], p);
    }
    float* to = part + (tile * kFfnRowsWarps + warp) * kTileNumbers + g * kRowColumns + 2 * q;
    store2(to, sum[0], sum[1]);
    store2(to + kTileNumbers / 2, sum[2], sum[3]);
  }
}

// The block's hidden channels that are nonzero after relu² in any row, in order, and their values, padded
// with zeros to whole steps of the value GEMM.
template <class T>
struct KeptChannels {
  static constexpr int kStride = kMostHidden + 8;  // against bank conflicts
  int count;
  int channel[kMostHidden];
  alignas(16) unsigned char storage[kRowColumns * kStride * sizeof(T)];

  __device__ T* row(int r) { return reinterpret_cast<T*>(storage) + r * kStride; }
};

template <class T>
__device__ void keep_hidden(const FfnRowsArguments<T>& a, const HiddenTiles& own, const float* part,
                            KeptChannels<T>& kept) {
  __shared__ Unset<T> hidden[kMostHidden][kRowColumns];
  __shared__ bool any[kMostHidden];
  __shared__ int warp_count[kFfnRowsWarps];
  const int channels = own.count * kHiddenTile, warps = min(a.k / kInputPiece, kFfnRowsWarps);
  for (int i = threadIdx.x; i < channels * kRowColumns; i += kFfnRowsThreads) {
    const int tile = i / kTileNumbers, channel = i / kRowColumns, row = i % kRowColumns;
    const float* from = part + tile * kFfnRowsWarps * kTileNumbers + i % kTileNumbers;
    float x = 0;
    for (int w = 0; w < warps; w++) x += from[w * kTileNumbers];
    const T value = from_float<T>(x > 0 ? x * x : 0.0f);
    hidden[channel][row].value() = value;
    int nonzero = to_float(value) != 0.0f ? 1 : 0;
#pragma unroll
    for (int offset = kRowColumns / 2; offset > 0; offset /= 2) {
      nonzero |= __shfl_xor_sync(kFullWarp, nonzero, offset);
    }
    if (row == 0) any[channel] = nonzero != 0;
  }
  __syncthreads();
  const int channel = threadIdx.x;
  const bool keeps = channel < channels && any[channel];
  const auto [at, count] = place_in_block(keeps, warp_count);
  if (keeps) {
    kept.channel[at] = own.first * kHiddenTile + channel;
#pragma unroll
    for (int r = 0; r < kRowColumns; r++) kept.row(r)[at] = hidden[channel][r].value();
  }
  const int padded = (count + kKeptStep - 1) / kKeptStep * kKeptStep;
  const int padding = (padded - count) * kRowColumns;
  if (threadIdx.x < padding) {
    kept.row(threadIdx.x % kRowColumns)[count + threadIdx.x / kRowColumns] = from_float<T>(0.0f);
  }
  if (threadIdx.x == 0) kept.count = count;
  __syncthreads();
}

// Loop order of a warp: 64-output slice, then step of 16 kept channels.
struct ValueItem {
  int group, step;
  __device__ void advance(int steps) {
    if (++step < steps) return;
    step = 0;
    group += kFfnRowsWarps;
  }
};

template <class T>
__device__ void multiply_kept_values(const FfnRowsArguments<T>& a, KeptChannels<T>& kept) {
  const int warp = threadIdx.x / kWarp, g = fragment_group(), q = fragment_place();
  const int groups = a.cols / kKeptOuts, steps = (kept.count + kKeptStep - 1) / kKeptStep;
  const auto store_group = [&](int group, const float(&sum)[4][1][4]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int row = 2 * q + i;
      if (row >= a.rows) continue;
      float* to = a.partial + static_cast<int64_t>(blockIdx.x * a.rows + row) * a.cols + group * kKeptOuts +
                  g * kKeptLaneOuts;
      store4(to, Float4{{sum[0][0][i], sum[0][0][2 + i], sum[1][0][i], sum[1][0][2 + i]}});
      store4(to + 4, Float4{{sum[2][0][i], sum[2][0][2 + i], sum[3][0][i], sum[3][0][2 + i]}});
    }
  };
  float sum[4][1][4] = {};
  if (steps == 0) {
    for (int group = warp; group < groups; group += kFfnRowsWarps) store_group(group, sum);
    return;
  }
  uint4 w[kItemsAhead][4];
  const auto fetch = [&](uint4(&to)[4], const ValueItem& item) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int at = item.step * kKeptStep + 4 * q + i;
      to[i] = uint4{};
      if (item.group >= groups || at >= kept.count) continue;
      const T* row = a.value + static_cast<int64_t>(kept.channel[at]) * a.cols;
      to[i] = __ldcs(reinterpret_cast<const uint4*>(row + item.group * kKeptOuts + g * kKeptLaneOuts));
    }
  };
  ValueItem fetched{warp, 0}, item{warp, 0};
#pragma unroll
  for (int i = 0; i < kItemsAhead; i++) {
    fetch(w[i], fetched);
    fetched.advance(steps);
  }
  while (item.group < groups) {
#pragma unroll
    for (int ahead = 0; ahead < kItemsAhead; ahead++) {
      if (item.group >= groups) break;
      const uint2 x[1] = {*reinterpret_cast<const uint2*>(kept.row(g) + item.step * kKeptStep + 4 * q)};
      multiply_kept_step<T, 1>(w[ahead], x, sum);
      fetch(w[ahead], fetched);
      fetched.advance(steps);
      if (item.step == steps - 1) {
        store_group(item.group, sum);
#pragma unroll
        for (auto& outs : sum) outs[0][0] = outs[0][1] = outs[0][2] = outs[0][3] = 0;
      }
      item.advance(steps);
    }
  }
}

template <class T, int kPieces>
__global__ void __launch_bounds__(kFfnRowsThreads, 1)
    ffn_rows_kernel(const __grid_constant__ FfnRowsArguments<T> a) {
  extern __shared__ float part[];
  __shared__ KeptChannels<T> kept;
  pdl_launch_next();
  const HiddenTiles own(a.tiles);
  stream_key_tiles<T, kPieces>(a, own, part);
  __syncthreads();
  keep_hidden<T>(a, own, part, kept);
  multiply_kept_values<T>(a, kept);
}

// Returns one block per SM, or more where these would have too many tiles.
int64_t hidden_blocks(int64_t n_ffn, int multiprocessors) {
  const int64_t tiles = n_ffn / kHiddenTile;
  return std::max<int64_t>(std::min<int64_t>(multiprocessors, tiles),
                           (tiles + kMostHiddenTiles - 1) / kMostHiddenTiles);
}

constexpr size_t kTileBytes = size_t{kFfnRowsWarps} * kTileNumbers * sizeof(float);

}  // namespace

int64_t ffn_rows_parts(Tensor in, const Weight& key, const Weight& value, int multiprocessors) {
  const bool suits = in.rows >= 2 && in.rows <= kMostFfnRows && suits_skinny(in, key) && value.plain16() &&
                     key.dtype == value.dtype && value.by_input() && key.in % kInputPiece == 0 &&
                     key.in <= int64_t{kMostInputPieces} * kFfnRowsWarps * kInputPiece &&
                     key.out % kHiddenTile == 0 && value.out % kKeptOuts == 0;
  if (!suits) return 0;
  return hidden_blocks(key.out, multiprocessors);
}

size_t most_ffn_rows_bytes(int64_t rows, int64_t n_embd, int64_t n_ffn, int multiprocessors) {
  return static_cast<size_t>(hidden_blocks(n_ffn, multiprocessors) * std::min(rows, kMostFfnRows) * n_embd) *
         sizeof(float);
}

void ffn_rows(const Queue& queue, Tensor in, const Weight& key, const Weight& value, Tensor parts) {
  FULMAR_CHECK(parts.cols == in.rows * value.out && parts.contiguous() &&
               parts.rows >= ffn_rows_parts(in, key, value, 1));
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    const FfnRowsArguments<T> a{{in.as<const T>(), in.stride},     static_cast<const T*>(key.data),
                                static_cast<const T*>(value.data), parts.as<float>(),
                                static_cast<int>(in.rows),         static_cast<int>(key.in),
                                static_cast<int>(value.out),       static_cast<int>(key.out / kHiddenTile)};
    const int64_t each = (a.tiles + parts.rows - 1) / parts.rows;
    const auto start = [&](auto pieces) {
      allow_shared(ffn_rows_kernel<T, pieces()>, kMostHiddenTiles * kTileBytes);
      launch(queue, ffn_rows_kernel<T, pieces()>, dim3(static_cast<unsigned>(parts.rows)),
             dim3(kFfnRowsThreads), static_cast<size_t>(each) * kTileBytes, a);
    };
    using std::integral_constant;
    const int64_t pieces = (key.in + kFfnRowsWarps * kInputPiece - 1) / (kFfnRowsWarps * kInputPiece);
    if (pieces == 1) return start(integral_constant<int, 1>{});
    if (pieces == 2) return start(integral_constant<int, 2>{});
    start(integral_constant<int, kMostInputPieces>{});
  });
}

}  // namespace fulmar::gpu
