// relu² feed-forward at batch 1 with 16-bit weights: every block streams some rows of the key matrix and at
// once multiplies the hidden channels that relu² leaves nonzero by their rows of the value matrix (stored
// transposed, [F, C]). A second kernel adds up the blocks' partial sums, in order. RWKV-6's gate is fused:
// its matrix is streamed after the key's, and the second kernel multiplies by it.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "gpu/device/block_place.h"
#include "gpu/device/equal_share.h"
#include "gpu/gemm/gemv_norm.h"
#include "gpu/stages/lone_row.h"

namespace fulmar::gpu {

namespace {

constexpr int kFfnThreads = kStreamThreads;
constexpr int kFfnTileOut = kStreamTile;  // hidden channels of a tile
constexpr int kMostFfnTiles = 16;         // per block
constexpr int kValueAhead = 4;            // rows of the value matrix in flight
constexpr int kFfnVector = 8;             // elements per 16 bytes

template <class T>
struct FfnRowArguments {
  const T *in, *remainder, *key, *value;  // [K]; [K], rounding remainder; [F, K]; [F, C]
  float remainder_factor;
  float* partial;                  // [blocks, C]
  int k, cols, tiles;              // K, C, F / 16
  const T *gate_in, *gate_weight;  // [K]; [C, K]
  T* gate;                         // [C], before its activation
  int gate_tiles;                  // C / 16, or 0
  Norming norm;                    // where inputs are computed here
  const float* mix;                // [K]
};

using Parts = float[kStreamWarps][kMostFfnTiles * kFfnTileOut];

// A block's tiles: contiguous ones of hidden channels, and those of the gate, which are less work, dealt out
// round-robin.
struct BlockChannels {
  EqualShare keys;
  int gate_first, gates;
  template <class T>
  __device__ explicit BlockChannels(const FfnRowArguments<T>& a) : keys(a.tiles) {
    const int block = blockIdx.x, blocks = gridDim.x, rest = a.tiles % blocks;
    gate_first = (block - rest + blocks) % blocks;  // starting with the blocks that have fewer tiles
    gates = (a.gate_tiles - gate_first + blocks - 1) / blocks;
  }
  __device__ int gate(int i) const { return gate_first + (i - keys.count) * static_cast<int>(gridDim.x); }
};

enum class FfnInput : uint8_t { stored, gated, made };  // gated: stored, plus a gate

// Multiplies the block's tiles of the key matrix, then of the gate's.
template <class T, FfnInput kKind>
__device__ void stream_keys(const FfnRowArguments<T>& a, const BlockChannels& share, uint4* shared,
                            Parts& part) {
  const auto is_gate = [&](int i) { return kKind == FfnInput::gated && i >= share.keys.count; };
  const auto tile_of = [&](int i) -> StreamTile<T> {
    const int64_t row =
        (is_gate(i) ? share.gate(i) : share.keys.first + i) * kFfnTileOut + stream_row_of_lane();
    const T* low = (is_gate(i) ? a.gate_weight : a.key) + row * a.k;
    return {low, low + static_cast<int64_t>(kTileHalf) * a.k};
  };
  const auto stream = [&](auto& inputs) {
    const int tiles = share.keys.count + (kKind == FfnInput::gated ? share.gates : 0);
    stream_row<T>(tile_of, inputs, tiles, a.k, a.remainder_factor, part);
  };
  if constexpr (kKind == FfnInput::made) {
    const NormedRow row = a.norm.here();
    const float* const mix[1] = {a.mix};
    MadeInputs<T, 1> made(row, mix, shared);
    stream(made);
  } else {
    const auto source = [&](int i) -> PairSource<T> {
      return is_gate(i) ? PairSource<T>{a.gate_in, nullptr} : PairSource<T>{a.in, a.remainder};
    };
    StoredInputs<T, decltype(source)> stored(source, shared);
    stream(stored);
  }
}

// The block's hidden channels that are nonzero after relu²: indices and values, in order.
struct Kept {
  int count;
  int channel[kMostFfnTiles * kFfnTileOut];
  float value[kMostFfnTiles * kFfnTileOut];
};

template <class T, FfnInput kKind>
__device__ void keep_channels(const FfnRowArguments<T>& a, const BlockChannels& share, const Parts& part,
                              Kept& kept) {
  static_assert(kFfnThreads == kMostFfnTiles * kFfnTileOut);
  __shared__ int warp_count[kStreamWarps];
  const int tile = threadIdx.x / kFfnTileOut, out = threadIdx.x % kFfnTileOut;
  const bool key = tile < share.keys.count,
             gate = kKind == FfnInput::gated && !key && tile < share.keys.count + share.gates;
  float x = key || gate ? stream_sum(part, static_cast<int>(threadIdx.x), a.k) : 0.0f;
  if (gate) {
    a.gate[share.gate(tile) * kFfnTileOut + out] = from_float<T>(x);
    x = 0;
  }
  x = x > 0 ? clipped<T>(x * x) : 0.0f;
  const bool keeps = x != 0.0f;
  const BlockPlace place = place_in_block(keeps, warp_count);
  if (keeps) {
    kept.channel[place.at] = (share.keys.first + tile) * kFfnTileOut + out;
    kept.value[place.at] = x;
  }
  if (threadIdx.x == 0) kept.count = place.count;
  __syncthreads();
}

// Multiplies the kept channels by their value rows: a thread accumulates kVectors pieces of eight outputs.
template <class T, int kVectors>
__device__ void multiply_values(const FfnRowArguments<T>& a, const Kept& kept) {
  float sum[kVectors][kFfnVector] = {};
  const int vectors = a.cols / kFfnVector;
  const auto* value = reinterpret_cast<const uint4*>(a.value) + threadIdx.x;
  uint4 w[kValueAhead][kVectors];
  const auto fetch = [&](uint4(&to)[kVectors], int i) {
    if (i >= kept.count) return;
#pragma unroll
    for (int v = 0; v < kVectors; v++) {
      if (threadIdx.x + v * kFfnThreads < static_cast<unsigned>(vectors)) {
        to[v] = __ldcs(value + static_cast<int64_t>(kept.channel[i]) * vectors + v * kFfnThreads);
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
        T e[kFfnVector];
        memcpy(e, &w[ahead][v], sizeof(e));
#pragma unroll
        for (int j = 0; j < kFfnVector; j++) sum[v][j] += by * to_float(e[j]);
      }
      fetch(w[ahead], i + kValueAhead);
    }
  }
  float* to = a.partial + static_cast<int64_t>(blockIdx.x) * a.cols;
#pragma unroll
  for (int v = 0; v < kVectors; v++) {
    const int c = (threadIdx.x + v * kFfnThreads) * kFfnVector;
    if (c >= a.cols) continue;
    store4(to + c, Float4{{sum[v][0], sum[v][1], sum[v][2], sum[v][3]}});
    store4(to + c + 4, Float4{{sum[v][4], sum[v][5], sum[v][6], sum[v][7]}});
  }
}

template <class T, int kVectors, FfnInput kKind>
__global__ void __launch_bounds__(kFfnThreads, 2)
    ffn_row_kernel(const __grid_constant__ FfnRowArguments<T> a) {
  __shared__ Parts part;
  __shared__ Kept kept;
  pdl_launch_next();
  extern __shared__ uint4 shared[];
  const BlockChannels share(a);
  stream_keys<T, kKind>(a, share, shared, part);
  __syncthreads();
  keep_channels<T, kKind>(a, share, part, kept);
  multiply_values<T, kVectors>(a, kept);
}

constexpr int kSumOuts = 32;                         // per block
constexpr int kSumLanes = kSumOuts / 4;              // threads per group, four outputs each
constexpr int kSumGroups = kFfnThreads / kSumLanes;  // groups, each adding up some of the parts

template <class T>
struct Sum {
  const float* parts;  // [count, cols]
  int count, cols;
  const T* gate;   // [cols], or null
  T* out;          // [cols], or
  float* x;        // [cols], to which the sum is added
  const float* z;  // [cols], or null: written to the carried shift
  Slots<float> carry;
  const int32_t* slot;
};

template <class T>
__global__ void __launch_bounds__(kFfnThreads) sum_parts_kernel(const __grid_constant__ Sum<T> a) {
  __shared__ float group_sum[kSumGroups][kSumOuts];
  const int lane = threadIdx.x % kSumLanes, group = threadIdx.x / kSumLanes, first = blockIdx.x * kSumOuts;
  pdl_launch_next();
  pdl_wait();
  Float4 sum{};
#pragma unroll 9
  for (int i = group; i < a.count; i += kSumGroups) {
    const Float4 v = load4(a.parts + static_cast<int64_t>(i) * a.cols + first + lane * 4);
#pragma unroll
    for (int e = 0; e < 4; e++) sum.x[e] += v.x[e];
  }
  store4(&group_sum[group][lane * 4], sum);
  __syncthreads();
  if (threadIdx.x >= kSumOuts) return;
  const int c = first + threadIdx.x;
  if (a.z != nullptr) a.carry[a.slot[0]][c] = a.z[c];
  float total = 0;
#pragma unroll
  for (int i = 0; i < kSumGroups; i++) total += group_sum[i][threadIdx.x];
  if (a.gate != nullptr) total *= sigmoid(to_float(a.gate[c]));
  if (a.x != nullptr) {
    atomicAdd(a.x + c, total);  // no other thread writes here: an add without waiting for a load
  } else {
    a.out[c] = from_float<T>(total);
  }
}

}  // namespace

int64_t ffn_row_parts(const Weight& key, const Weight& value, int multiprocessors, const Weight& gate) {
  constexpr int64_t kMostVectors = 4;
  const bool suits = key.plain16() && value.plain16() && (gate.empty() || gate.plain16()) &&
                     !key.by_input() && value.by_input() && key.in % kStreamPiece == 0 &&
                     stream_shared_bytes(key.in) <= kMostStreamShared && key.out % kFfnTileOut == 0 &&
                     value.out % kSumOuts == 0 && value.out <= kMostVectors * kFfnThreads * kFfnVector &&
                     !gate.by_input() && gate.out % kFfnTileOut == 0;
  if (!suits) return 0;
  const int64_t tiles = (key.out + gate.out) / kFfnTileOut;
  return std::max<int64_t>(std::min<int64_t>(2 * multiprocessors, tiles),
                           (tiles + kMostFfnTiles - 1) / kMostFfnTiles);
}

void ffn_row(const Queue& queue, const FfnRow& row, Tensor parts) {
  const Weight &key = row.key, &value = row.value;
  const bool made = row.norm.norm != nullptr, gated = row.gate.in.data != nullptr;
  const int64_t least = ffn_row_parts(key, value, 1, row.gate.weight);
  FULMAR_CHECK(least > 0 && parts.rows >= least && parts.cols == value.out && parts.contiguous());
  FULMAR_CHECK(!gated || (row.gate.weight.in == key.in && row.gate.weight.out == value.out));
  FULMAR_CHECK(!made || (!gated && key.in <= kMostMadeCols && value.out <= kMostMadeCols));
  with_activation(activation_of(key), [&](auto sample) {
    using T = decltype(sample);
    FfnRowArguments<T> a{row.in.high.as<const T>(),
                         row.in.remainder.as<const T>(),
                         static_cast<const T*>(key.data),
                         static_cast<const T*>(value.data),
                         made || !row.in.remainder.empty() ? 1.0f / kRemainderScale<T> : 0.0f,
                         parts.as<float>(),
                         static_cast<int>(key.in),
                         static_cast<int>(value.out),
                         static_cast<int>(key.out / kFfnTileOut),
                         row.gate.in.as<const T>(),
                         static_cast<const T*>(row.gate.weight.data),
                         row.gate.out.as<T>(),
                         static_cast<int>((gated ? row.gate.weight.out : 0) / kFfnTileOut)};
    if (made) a.norm = norming_of(row.norm), a.mix = row.mix;
    const auto start = [&](void (*kernel)(FfnRowArguments<T>)) {
      allow_shared(kernel, kMostStreamShared);
      launch(queue, kernel, dim3(static_cast<unsigned>(parts.rows)), dim3(kFfnThreads),
             stream_shared_bytes(key.in), a);
    };
    const auto with = [&](auto each) {
      gated ? start(ffn_row_kernel<T, each(), FfnInput::gated>)
            : start(ffn_row_kernel<T, each(), FfnInput::stored>);
    };
    using std::integral_constant;
    const int64_t vectors = (value.out + kFfnThreads * kFfnVector - 1) / (kFfnThreads * kFfnVector);
    if (made) {
      start(ffn_row_kernel<T, 1, FfnInput::made>);
    } else if (vectors == 1) {
      with(integral_constant<int, 1>{});
    } else if (vectors == 2) {
      with(integral_constant<int, 2>{});
    } else {
      with(integral_constant<int, 4>{});
    }
  });
}

void sum_parts(const Queue& queue, Tensor parts, Tensor out, const FfnRowGate& gate, const RowNorm& made,
               bool adds) {
  const bool wide = out.dtype == DType::f32;
  adds = adds && wide;
  FULMAR_CHECK(parts.cols % kSumOuts == 0 && parts.contiguous() && (!wide || gate.out.empty()));
  const auto run = [&](auto sample) {
    using T = decltype(sample);
    const Sum<T> sum{parts.as<const float>(),  static_cast<int>(parts.rows), static_cast<int>(parts.cols),
                     gate.out.as<const T>(),   adds ? nullptr : out.as<T>(), adds ? out.as<float>() : nullptr,
                     made.z.as<const float>(), slots_of<float>(made.carry),  made.slot};
    launch(queue, sum_parts_kernel<T>, dim3(static_cast<unsigned>(parts.cols / kSumOuts)), dim3(kFfnThreads),
           0, sum);
  };
  if (wide) return run(0.0f);
  with_activation(out.dtype, run);
}

}  // namespace fulmar::gpu
