// relu² feed-forward of one row: every block takes some of the hidden channels, streams their part of the key
// matrix and, where relu² leaves something, multiplies it with its row of the value matrix (stored
// transposed, [F, C]) at once. A second kernel adds up what the blocks have found, in order. RWKV-6's gate
// comes along: its matrix is streamed behind the key's, and the second kernel multiplies by it.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "gpu/element.h"
#include "gpu/kernels.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTileOut = 16;    // hidden channels of a tile
constexpr int kMostTiles = 16;  // of a block
constexpr int kPiece = 64;      // inputs that a warp takes at a time
constexpr int kAhead = 4;       // pieces on their way
constexpr int kValueAhead = 4;  // rows of the value matrix on their way
constexpr int kVector = 8;      // elements of 16 bytes

template <class T>
struct Arguments {
  const T *in, *key, *value;       // [K]; [F, K]; [F, C]
  float* partial;                  // [blocks, C]
  int k, cols, tiles;              // K, C, F / 16
  const T *gate_in, *gate_weight;  // [K]; [C, K]
  T* gate;                         // [C], before its activation
  int all_tiles;                   // those of the gate included
};

// What the warp's share of the inputs gives for all tiles of the block: tiles blockIdx.x, + gridDim.x, ...,
// inputs warp * kPiece, + kWarps * kPiece, ... No barrier between tiles: the stream of weights does not
// pause.
template <class T, bool kGated>
__device__ void stream_keys(const Arguments<T>& a, float (*part)[kWarps][kTileOut]) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4, warp = threadIdx.x / kWarp;
  const int row_vectors = a.k / kVector, pieces = a.k / kPiece;
  const int each = (pieces - warp + kWarps - 1) / kWarps;  // of a tile
  const int tiles = (a.all_tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) /
                    static_cast<int>(gridDim.x);
  const int total = each * tiles;
  constexpr int kStride = kWarps * kPiece / kVector;
  const int own = warp * (kPiece / kVector) + q;
  const auto weights_of = [&](int number) {
    const bool gate = kGated && number >= a.tiles;
    return reinterpret_cast<const uint4*>(gate ? a.gate_weight : a.key) +
           static_cast<int64_t>((gate ? number - a.tiles : number) * kTileOut + g) * row_vectors + own;
  };
  const auto input_of = [&](int number) {
    return reinterpret_cast<const uint4*>(kGated && number >= a.tiles ? a.gate_in : a.in) + own;
  };
  const int64_t down = int64_t{8} * row_vectors;
  uint4 w[kAhead][4];
  int fetched = 0;  // pieces of the tile being fetched
  int fetching = blockIdx.x;
  const uint4* at = weights_of(fetching);
  const auto fetch = [&](uint4(&to)[4]) {
    to[0] = __ldcs(at), to[1] = __ldcs(at + 4);
    to[2] = __ldcs(at + down), to[3] = __ldcs(at + down + 4);
    at += kStride;
    if (++fetched == each) {
      fetched = 0;
      at = weights_of(fetching += gridDim.x);
    }
  };
#pragma unroll
  for (int i = 0; i < kAhead; i++) {
    if (i < total) fetch(w[i]);
  }
  wait_for_previous();
  float sum[4] = {};
  int piece = 0, tile = 0;
  const uint4* in = input_of(blockIdx.x);
  uint4 x[2] = {};
  if (total > 0) x[0] = in[0], x[1] = in[4];
  for (int base = 0; base < total; base += kAhead) {
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ahead++) {
      const int i = base + ahead;
      if (i >= total) break;
      const int next = piece + 1 == each ? 0 : piece + 1;
      const uint4 x0 = x[0], x1 = x[1];
      if (kGated && next == 0) in = input_of(blockIdx.x + (tile + 1) * gridDim.x);
      x[0] = in[next * kStride], x[1] = in[next * kStride + 4];
      const uint4(&v)[4] = w[ahead];
      matrix_multiply_add<T>(sum, v[0].x, v[2].x, v[0].y, v[2].y, x0.x, x0.y);
      matrix_multiply_add<T>(sum, v[0].z, v[2].z, v[0].w, v[2].w, x0.z, x0.w);
      matrix_multiply_add<T>(sum, v[1].x, v[3].x, v[1].y, v[3].y, x1.x, x1.y);
      matrix_multiply_add<T>(sum, v[1].z, v[3].z, v[1].w, v[3].w, x1.z, x1.w);
      if (i + kAhead < total) fetch(w[ahead]);
      piece = next;
      if (piece != 0) continue;
      // All columns of the product are the one row.
      if (q == 0) part[tile][warp][g] = sum[0], part[tile][warp][g + 8] = sum[2];
      sum[0] = sum[1] = sum[2] = sum[3] = 0;
      tile++;
    }
  }
}

// Hidden channels of the block that relu² has left something of: their numbers and values, in order.
struct Kept {
  int count;
  int channel[kMostTiles * kTileOut];
  float value[kMostTiles * kTileOut];
};

template <class T, bool kGated>
__device__ void keep_channels(const Arguments<T>& a, const float (*part)[kWarps][kTileOut], Kept& kept) {
  static_assert(kThreads == kMostTiles * kTileOut);
  __shared__ int warp_count[kWarps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int tile = threadIdx.x / kTileOut, out = threadIdx.x % kTileOut;
  const int number = blockIdx.x + tile * gridDim.x;
  float x = 0;
  if (number < a.all_tiles) {
#pragma unroll
    for (int w = 0; w < kWarps; w++) x += w * kPiece < a.k ? part[tile][w][out] : 0.0f;
  }
  if (kGated && number >= a.tiles) {
    if (number < a.all_tiles) a.gate[(number - a.tiles) * kTileOut + out] = from_float<T>(x);
    x = 0;
  }
  x = x > 0 ? to_float(from_float<T>(x * x)) : 0.0f;
  const bool keeps = x != 0.0f;
  const unsigned mask = __ballot_sync(kFullWarp, keeps);
  if (lane == 0) warp_count[warp] = __popc(mask);
  __syncthreads();
  int before = __popc(mask & ((1u << lane) - 1)), count = 0;
#pragma unroll
  for (int w = 0; w < kWarps; w++) {
    if (w < warp) before += warp_count[w];
    count += warp_count[w];
  }
  if (keeps) kept.channel[before] = number * kTileOut + out, kept.value[before] = x;
  if (threadIdx.x == 0) kept.count = count;
  __syncthreads();
}

// Every thread: kVectors pieces of eight outputs.
template <class T, int kVectors>
__device__ void multiply_values(const Arguments<T>& a, const Kept& kept) {
  float sum[kVectors][kVector] = {};
  const int vectors = a.cols / kVector;
  const auto* value = reinterpret_cast<const uint4*>(a.value) + threadIdx.x;
  uint4 w[kValueAhead][kVectors];
  const auto fetch = [&](uint4(&to)[kVectors], int i) {
    if (i >= kept.count) return;
#pragma unroll
    for (int v = 0; v < kVectors; v++) {
      if (threadIdx.x + v * kThreads < static_cast<unsigned>(vectors)) {
        to[v] = __ldcs(value + static_cast<int64_t>(kept.channel[i]) * vectors + v * kThreads);
      }
    }
  };
#pragma unroll
  for (int i = 0; i < kValueAhead; i++) fetch(w[i], i);
  for (int base = 0; base < kept.count; base += kValueAhead) {
#pragma unroll
    for (int ahead = 0; ahead < kValueAhead; ahead++) {
      const int i = base + ahead;
      if (i >= kept.count) break;
      const float by = kept.value[i];
#pragma unroll
      for (int v = 0; v < kVectors; v++) {
        T e[kVector];
        memcpy(e, &w[ahead][v], sizeof(e));
#pragma unroll
        for (int j = 0; j < kVector; j++) sum[v][j] += by * to_float(e[j]);
      }
      fetch(w[ahead], i + kValueAhead);
    }
  }
  float* to = a.partial + static_cast<int64_t>(blockIdx.x) * a.cols;
#pragma unroll
  for (int v = 0; v < kVectors; v++) {
    const int c = (threadIdx.x + v * kThreads) * kVector;
    if (c >= a.cols) continue;
    store4(to + c, Float4{{sum[v][0], sum[v][1], sum[v][2], sum[v][3]}});
    store4(to + c + 4, Float4{{sum[v][4], sum[v][5], sum[v][6], sum[v][7]}});
  }
}

template <class T, int kVectors, bool kGated>
__global__ void __launch_bounds__(kThreads, 2) ffn_row_kernel(const __grid_constant__ Arguments<T> a) {
  __shared__ float part[kMostTiles][kWarps][kTileOut];
  __shared__ Kept kept;
  let_next_start();
  stream_keys<T, kGated>(a, part);
  __syncthreads();
  keep_channels<T, kGated>(a, part, kept);
  multiply_values<T, kVectors>(a, kept);
}

constexpr int kSumOuts = 32;                      // of a block
constexpr int kSumLanes = kSumOuts / 4;           // threads that hold them
constexpr int kSumGroups = kThreads / kSumLanes;  // of parts

template <class T>
__global__ void __launch_bounds__(kThreads)
    ffn_row_sum_kernel(const float* partial, int parts, int cols, const T* gate, T* out) {
  __shared__ float group_sum[kSumGroups][kSumOuts];
  const int lane = threadIdx.x % kSumLanes, group = threadIdx.x / kSumLanes, first = blockIdx.x * kSumOuts;
  let_next_start();
  wait_for_previous();
  Float4 sum{};
#pragma unroll 9
  for (int i = group; i < parts; i += kSumGroups) {
    const Float4 v = load4(partial + static_cast<int64_t>(i) * cols + first + lane * 4);
#pragma unroll
    for (int e = 0; e < 4; e++) sum.x[e] += v.x[e];
  }
  store4(&group_sum[group][lane * 4], sum);
  __syncthreads();
  if (threadIdx.x >= kSumOuts) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kSumGroups; i++) total += group_sum[i][threadIdx.x];
  if (gate != nullptr) total *= sigmoid(to_float(gate[first + threadIdx.x]));
  out[first + threadIdx.x] = from_float<T>(total);
}

}  // namespace

FfnRowPlan plan_ffn_row(const Weight& key, const Weight& value, int multiprocessors, const Weight& gate) {
  constexpr int64_t kMostVectors = 4;
  FfnRowPlan plan;
  const bool suits = !key.transposed && value.transposed && key.in % kPiece == 0 && key.out % kTileOut == 0 &&
                     value.out % kSumOuts == 0 && value.out <= kMostVectors * kThreads * kVector &&
                     !gate.transposed && gate.out % kTileOut == 0;
  if (!suits) return plan;
  const int64_t tiles = (key.out + gate.out) / kTileOut;
  plan.blocks =
      std::max<int64_t>(std::min<int64_t>(2 * multiprocessors, tiles), (tiles + kMostTiles - 1) / kMostTiles);
  plan.partial_bytes = static_cast<size_t>(plan.blocks * value.out) * sizeof(float);
  return plan;
}

void ffn_row(const Queue& queue, const FfnRowPlan& plan, Tensor in, const Weight& key, const Weight& value,
             Tensor out, float* partial, const FfnRowGate& gate) {
  FULMAR_CHECK(in.rows == 1 && plan.blocks > 0);
  const bool gated = gate.in.data != nullptr;
  FULMAR_CHECK(!gated || (gate.weight.in == key.in && gate.weight.out == value.out));
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    const Arguments<T> a{in.as<const T>(),
                         static_cast<const T*>(key.data),
                         static_cast<const T*>(value.data),
                         partial,
                         static_cast<int>(key.in),
                         static_cast<int>(value.out),
                         static_cast<int>(key.out / kTileOut),
                         gate.in.as<const T>(),
                         static_cast<const T*>(gate.weight.data),
                         gate.out.as<T>(),
                         static_cast<int>((key.out + (gated ? gate.weight.out : 0)) / kTileOut)};
    const dim3 grid(static_cast<unsigned>(plan.blocks)), block(kThreads);
    const int64_t vectors = (value.out + kThreads * kVector - 1) / (kThreads * kVector);
    const auto with = [&](auto each) {
      if (gated) return launch(queue, ffn_row_kernel<T, each(), true>, grid, block, 0, a);
      launch(queue, ffn_row_kernel<T, each(), false>, grid, block, 0, a);
    };
    using std::integral_constant;
    if (vectors == 1) {
      with(integral_constant<int, 1>{});
    } else if (vectors == 2) {
      with(integral_constant<int, 2>{});
    } else {
      with(integral_constant<int, 4>{});
    }
    launch(queue, ffn_row_sum_kernel<T>, dim3(static_cast<unsigned>(value.out / kSumOuts)), block, 0, partial,
           static_cast<int>(plan.blocks), static_cast<int>(value.out), gate.out.as<const T>(), out.as<T>());
  });
}

}  // namespace fulmar::gpu
