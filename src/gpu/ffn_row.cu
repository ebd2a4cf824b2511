// relu² feed-forward of one row: every block takes some of the hidden channels, streams their part of the key
// matrix and, where relu² leaves something, multiplies it with its row of the value matrix (stored
// transposed, [F, C]) at once. A second kernel adds up what the blocks have found, in order. RWKV-6's gate
// comes along: its matrix is streamed behind the key's, and the second kernel multiplies by it.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "gpu/pair.h"
#include "gpu/row_kernels.h"
#include "gpu/row_stream.h"

namespace fulmar::gpu {

namespace {

constexpr int kThreads = kStreamThreads;
constexpr int kTileOut = kStreamTile;  // hidden channels of a tile
constexpr int kMostTiles = 16;         // of a block
constexpr int kValueAhead = 4;         // rows of the value matrix on their way
constexpr int kVector = 8;             // elements of 16 bytes

template <class T>
struct Arguments {
  const T *in, *left, *key, *value;  // [K]; [K], what rounding left of it; [F, K]; [F, C]
  float left_factor;
  float* partial;                  // [blocks, C]
  int k, cols, tiles;              // K, C, F / 16
  const T *gate_in, *gate_weight;  // [K]; [C, K]
  T* gate;                         // [C], before its activation
  int gate_tiles;                  // C / 16, or 0
};

using Parts = float[kStreamWarps][kMostTiles * kTileOut];

// A block's tiles of hidden channels, which follow one another in memory; those of the gate, which are
// shorter work, go round.
struct Share {
  int first, keys, gates;
  template <class T>
  __device__ explicit Share(const Arguments<T>& a) {
    const int block = blockIdx.x, blocks = gridDim.x, whole = a.tiles / blocks, rest = a.tiles % blocks;
    keys = whole + (block < rest ? 1 : 0);
    first = block * whole + min(block, rest);
    const int turn = (block - rest + blocks) % blocks;  // blocks with fewer tiles come first
    gates = (a.gate_tiles - turn + blocks - 1) / blocks;
    gate_first = turn;
  }
  int gate_first;
  __device__ int gate(int i) const { return gate_first + (i - keys) * static_cast<int>(gridDim.x); }
};

// The block's tiles of the key matrix, then of the gate's.
template <class T, bool kGated>
__device__ void stream_keys(const Arguments<T>& a, const Share& share, uint4* inputs, Parts& part) {
  const auto tile_of = [&](int i) -> StreamTile<T> {
    const bool gate = kGated && i >= share.keys;
    const int64_t row = (gate ? share.gate(i) : share.first + i) * kTileOut + stream_row_of_lane();
    const T* low = (gate ? a.gate_weight : a.key) + row * a.k;
    return {low, low + static_cast<int64_t>(kTileHalf) * a.k, gate ? a.gate_in : a.in,
            gate ? nullptr : a.left};
  };
  stream_row<T>(tile_of, share.keys + (kGated ? share.gates : 0), a.k, a.left_factor, inputs, part);
}

// Hidden channels of the block that relu² has left something of: their numbers and values, in order.
struct Kept {
  int count;
  int channel[kMostTiles * kTileOut];
  float value[kMostTiles * kTileOut];
};

template <class T, bool kGated>
__device__ void keep_channels(const Arguments<T>& a, const Share& share, const Parts& part, Kept& kept) {
  static_assert(kThreads == kMostTiles * kTileOut);
  __shared__ int warp_count[kStreamWarps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int tile = threadIdx.x / kTileOut, out = threadIdx.x % kTileOut;
  const bool key = tile < share.keys, gate = kGated && !key && tile < share.keys + share.gates;
  float x = key || gate ? stream_sum(part, static_cast<int>(threadIdx.x), a.k) : 0.0f;
  if (gate) {
    a.gate[share.gate(tile) * kTileOut + out] = from_float<T>(x);
    x = 0;
  }
  x = x > 0 ? x * x : 0.0f;
  const bool keeps = x != 0.0f;
  const unsigned mask = __ballot_sync(kFullWarp, keeps);
  if (lane == 0) warp_count[warp] = __popc(mask);
  __syncthreads();
  int before = __popc(mask & ((1u << lane) - 1)), count = 0;
#pragma unroll
  for (int w = 0; w < kStreamWarps; w++) {
    if (w < warp) before += warp_count[w];
    count += warp_count[w];
  }
  if (keeps) kept.channel[before] = (share.first + tile) * kTileOut + out, kept.value[before] = x;
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
  __shared__ Parts part;
  __shared__ Kept kept;
  let_next_start();
  extern __shared__ uint4 inputs[];
  const Share share(a);
  stream_keys<T, kGated>(a, share, inputs, part);
  __syncthreads();
  keep_channels<T, kGated>(a, share, part, kept);
  multiply_values<T, kVectors>(a, kept);
}

constexpr int kSumOuts = 32;                      // of a block
constexpr int kSumLanes = kSumOuts / 4;           // threads that hold them
constexpr int kSumGroups = kThreads / kSumLanes;  // of parts

template <class T>
__global__ void __launch_bounds__(kThreads)
    ffn_row_sum_kernel(const float* partial, int parts, int cols, const T* gate, T* out, float* x) {
  __shared__ float group_sum[kSumGroups][kSumOuts];
  const int lane = threadIdx.x % kSumLanes, group = threadIdx.x / kSumLanes, first = blockIdx.x * kSumOuts;
  let_next_start();
  wait_for_previous();
  const int c = first + threadIdx.x;
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
  if (gate != nullptr) total *= sigmoid(to_float(gate[c]));
  if (x != nullptr) {
    atomicAdd(x + c, total);  // nobody else writes it: a way to add without waiting for what is there
  } else {
    out[c] = from_float<T>(total);
  }
}

}  // namespace

FfnRowPlan plan_ffn_row(const Weight& key, const Weight& value, int multiprocessors, const Weight& gate) {
  constexpr int64_t kMostVectors = 4;
  FfnRowPlan plan;
  const bool suits = !key.transposed && value.transposed && key.in % kStreamPiece == 0 &&
                     stream_shared_bytes(key.in) <= kMostStreamShared && key.out % kTileOut == 0 &&
                     value.out % kSumOuts == 0 && value.out <= kMostVectors * kThreads * kVector &&
                     !gate.transposed && gate.out % kTileOut == 0;
  if (!suits) return plan;
  const int64_t tiles = (key.out + gate.out) / kTileOut;
  plan.blocks =
      std::max<int64_t>(std::min<int64_t>(2 * multiprocessors, tiles), (tiles + kMostTiles - 1) / kMostTiles);
  plan.partial_bytes = static_cast<size_t>(plan.blocks * value.out) * sizeof(float);
  return plan;
}

void ffn_row(const Queue& queue, const FfnRowPlan& plan, const Pair& in, const Weight& key,
             const Weight& value, Tensor out, float* partial, const FfnRowGate& gate) {
  FULMAR_CHECK(in.high.rows == 1 && plan.blocks > 0);
  const bool gated = gate.in.data != nullptr;
  FULMAR_CHECK(!gated || (gate.weight.in == key.in && gate.weight.out == value.out && in.left.empty()));
  const bool adds = out.dtype == DType::f32;
  with_activation(in.high.dtype, [&](auto sample) {
    using T = decltype(sample);
    const Arguments<T> a{in.high.as<const T>(),
                         in.left.as<const T>(),
                         static_cast<const T*>(key.data),
                         static_cast<const T*>(value.data),
                         in.left.empty() ? 0.0f : 1.0f / kLeftScale<T>,
                         partial,
                         static_cast<int>(key.in),
                         static_cast<int>(value.out),
                         static_cast<int>(key.out / kTileOut),
                         gate.in.as<const T>(),
                         static_cast<const T*>(gate.weight.data),
                         gate.out.as<T>(),
                         static_cast<int>((gated ? gate.weight.out : 0) / kTileOut)};
    const dim3 grid(static_cast<unsigned>(plan.blocks)), block(kThreads);
    const int64_t vectors = (value.out + kThreads * kVector - 1) / (kThreads * kVector);
    const size_t shared = stream_shared_bytes(key.in);
    const auto start = [&](void (*kernel)(Arguments<T>)) {
      allow_shared(kernel, kMostStreamShared);
      launch(queue, kernel, grid, block, shared, a);
    };
    const auto with = [&](auto each) {
      gated ? start(ffn_row_kernel<T, each(), true>) : start(ffn_row_kernel<T, each(), false>);
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
           static_cast<int>(plan.blocks), static_cast<int>(value.out), gate.out.as<const T>(),
           adds ? nullptr : out.as<T>(), adds ? out.as<float>() : nullptr);
  });
}

}  // namespace fulmar::gpu
