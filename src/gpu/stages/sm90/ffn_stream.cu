// relu² feed-forward of two to eight rows as one stream of weights (products/sm90/stream.h): a block's part
// of the key matrix and, as soon as the reducer knows what relu² leaves in any row, the rows of the value
// matrix (stored transposed, [F, C]) that it meets. sum_parts adds up what the blocks have found.
#include <climits>
#include <type_traits>

#include "base/check.h"
#include "gpu/device/ptx.h"
#include "gpu/products/kept_step.h"
#include "gpu/products/sm90/stream.h"
#include "gpu/stages/ffn_rows.h"

namespace fulmar::gpu {

namespace {

template <class T>
struct FfnStreamArguments {
  Rows<const T> in;      // [R, K]
  const T *key, *value;  // [F, K]; [F, C]
  float* partial;        // [blocks, R, C]
  int rows, k, cols, tiles;
};

// A block's tiles of hidden channels, which follow one another in memory.
struct HiddenTiles {
  int first, count;
  __device__ explicit HiddenTiles(int tiles) {
    const int block = blockIdx.x, blocks = gridDim.x, whole = tiles / blocks, rest = tiles % blocks;
    count = whole + (block < rest ? 1 : 0);
    first = block * whole + min(block, rest);
  }
};

// Hidden channels of the block that relu² has left something of in any row, in order, and their values, zero
// where there are none (yet). The reducer appends to them while the producer looks on.
template <class T>
struct KeptChannels {
  static constexpr int kMost = kMostFfnTiles * kStageRows;
  static constexpr int kStride = kMost + 8;  // spreads the rows over the banks
  volatile int count, tiles;                 // so far, of so many tiles
  volatile int steps;                        // once all are known: how often 16 of them; else INT_MAX
  int channel[kMost];
  Unset<T> value[kStreamColumns][kStride];
};

// What the producer knows of them at one time.
struct KeptSoFar {
  int count;
  bool all;
};
template <class T>
__device__ KeptSoFar look_at(const KeptChannels<T>& kept, int tiles) {
  const bool all = kept.tiles == tiles;
  __threadfence_block();
  const int count = kept.count;
  __threadfence_block();
  return {count, all};
}

template <class T>
__device__ void produce(const FfnStreamArguments<T>& a, const HiddenTiles& own, Ring<StreamShape> ring,
                        KeptChannels<T>& kept) {
  const int lane = threadIdx.x % kWarp;
  for (int tile = 0; tile < own.count; tile++) {
    const T* row = a.key + static_cast<int64_t>((own.first + tile) * kStageRows + lane % kStageRows) * a.k;
    for (int at = 0; at < a.k; at += kStageWidth) {
      bring_stage(ring, kStageRows, min(a.k - at, kStageWidth), row + at);
    }
  }
  int step = 0;
  for (;; step++) {
    KeptSoFar known = look_at(kept, own.count);
    while (!known.all && known.count < (step + 1) * kKeptStep) known = look_at(kept, own.count);
    if (known.count <= step * kKeptStep) break;
    // What is missing of the last step repeats a channel: its values are zero.
    const int channel = kept.channel[min(step * kKeptStep + lane % kKeptStep, known.count - 1)];
    const T* row = a.value + static_cast<int64_t>(channel) * a.cols;
    for (int at = 0; at < a.cols; at += kStageWidth) {
      bring_stage(ring, kKeptStep, min(a.cols - at, kStageWidth), row + at);
    }
  }
  // An empty stage ends it.
  mbarrier_wait(&ring.empty[ring.place], ring.phase ^ 1);
  if (lane == 0) {
    kept.steps = step;
    __threadfence_block();
    mbarrier_arrive(&ring.full[ring.place]);
  }
}

// relu² of the block's tiles, and what it leaves.
template <class T>
__device__ void reduce(const FfnStreamArguments<T>& a, const HiddenTiles& own, StreamBarriers& barriers,
                       const float* parts, KeptChannels<T>& kept) {
  const int lane = threadIdx.x % kWarp, first_row = 4 * (lane % 2);
  constexpr unsigned kEvenLanes = 0x55555555u;
  int count = 0;
  for (int tile = 0; tile < own.count; tile++) {
    const Float4 sum = reduce_parts(barriers, parts, tile, a.k);
    T value[4];
    bool any = false;
#pragma unroll
    for (int e = 0; e < 4; e++) {
      value[e] = from_float<T>(sum.x[e] > 0 ? sum.x[e] * sum.x[e] : 0.0f);
      any |= to_float(value[e]) != 0.0f;
    }
    any |= __shfl_xor_sync(kFullWarp, any ? 1 : 0, 1) != 0;
    const unsigned mask = __ballot_sync(kFullWarp, any) & kEvenLanes;
    const int at = count + __popc(mask & ((1u << (lane & ~1)) - 1));
    if (any) {
#pragma unroll
      for (int e = 0; e < 4; e++) kept.value[first_row + e][at].value() = value[e];
      if (first_row == 0) kept.channel[at] = (own.first + tile) * kStageRows + lane / 2;
    }
    count += __popc(mask);
    __threadfence_block();
    __syncwarp();
    if (lane == 0) {
      kept.count = count;
      __threadfence_block();
      kept.tiles = tile + 1;
    }
  }
}

// A consumer: its inputs of every tile, then its outputs of every stage of kept channels.
template <class T, int kMost>
__device__ void consume(const FfnStreamArguments<T>& a, const HiddenTiles& own, Ring<StreamShape> ring,
                        StreamBarriers& barriers, float* parts, KeptChannels<T>& kept) {
  const int warp = threadIdx.x / kWarp, g = fragment_group(), q = fragment_place();
  {
    StreamInputs<T, kMost> inputs;
    pdl_wait();
    inputs.load(a.in, a.rows, a.k);
    for (int tile = 0; tile < own.count; tile++) {
      float sum[4] = {};
      multiply_tile<T, kMost>(ring, inputs, a.k, sum);
      leave_part(barriers, parts, tile, sum);
    }
  }
  float sum[kMost][4][1][4] = {};
  for (int step = 0;; step++) {
    bool over = false;
#pragma unroll
    for (int s = 0; s < kMost; s++) {
      if (s * kStageWidth >= a.cols) break;
      take_stage(ring, [&](const unsigned char* stage) {
        over = kept.steps == step;
        if (over || s * kStageWidth + warp * kConsumerWidth >= a.cols) return;
        const auto row = [&](int i) {
          return *reinterpret_cast<const uint4*>(stage + i * StreamShape::kRowBytes + g * sizeof(uint4));
        };
        const uint4 from[4] = {row(2 * q), row(2 * q + 1), row(2 * q + 8), row(2 * q + 9)};
        const auto* values = reinterpret_cast<const uint32_t*>(&kept.value[g][step * kKeptStep]);
        const uint2 x[1] = {{values[q], values[q + 4]}};
        multiply_kept_step<T, 1>(from, x, sum[s]);
      });
      if (over) break;
    }
    if (over) break;
  }
#pragma unroll
  for (int s = 0; s < kMost; s++) {
    const int out = s * kStageWidth + warp * kConsumerWidth + g * kKeptLaneOuts;
    if (out >= a.cols) continue;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int row = 2 * q + i;
      if (row >= a.rows) continue;
      float* to = a.partial + static_cast<int64_t>(blockIdx.x * a.rows + row) * a.cols + out;
      store4(to, Float4{{sum[s][0][0][i], sum[s][0][0][2 + i], sum[s][1][0][i], sum[s][1][0][2 + i]}});
      store4(to + 4, Float4{{sum[s][2][0][i], sum[s][2][0][2 + i], sum[s][3][0][i], sum[s][3][0][2 + i]}});
    }
  }
}

template <class T, int kMost>
__global__ void __launch_bounds__(kStreamingThreads, 1)
    ffn_stream_kernel(const __grid_constant__ FfnStreamArguments<T> a) {
  extern __shared__ __align__(16) unsigned char stages[];
  __shared__ StreamBarriers barriers;
  __shared__ KeptChannels<T> kept;
  Ring<StreamShape> ring{stages, barriers.full, barriers.empty};
  auto* parts = reinterpret_cast<float*>(stages + StreamShape::kStages * StreamShape::kStageBytes);
  pdl_launch_next();
  if (threadIdx.x == 0) {
    prepare_stream(ring, barriers);
    kept.count = kept.tiles = 0;
    kept.steps = INT_MAX;
  }
  for (int i = threadIdx.x; i < kStreamColumns * KeptChannels<T>::kStride; i += kStreamingThreads) {
    kept.value[0][i].value() = from_float<T>(0.0f);
  }
  __syncthreads();
  const HiddenTiles own(a.tiles);
  const int warp = threadIdx.x / kWarp;
  if (warp == kProducerWarp) return produce(a, own, ring, kept);
  if (warp == kReducerWarp) return reduce(a, own, barriers, parts, kept);
  consume<T, kMost>(a, own, ring, barriers, parts, kept);
}

}  // namespace

void ffn_stream(const Queue& queue, Tensor in, const Weight& key, const Weight& value, Tensor parts) {
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    const FfnStreamArguments<T> a{{in.as<const T>(), in.stride},     static_cast<const T*>(key.data),
                                  static_cast<const T*>(value.data), parts.as<float>(),
                                  static_cast<int>(in.rows),         static_cast<int>(key.in),
                                  static_cast<int>(value.out),       static_cast<int>(key.out / kStageRows)};
    const auto start = [&](auto stages) {
      allow_shared(ffn_stream_kernel<T, stages()>, kStreamBytes);
      launch(queue, ffn_stream_kernel<T, stages()>, dim3(static_cast<unsigned>(parts.rows)),
             dim3(kStreamingThreads), kStreamBytes, a);
    };
    using std::integral_constant;
    const int64_t widest = std::max(key.in, value.out);
    if (widest <= kStageWidth) return start(integral_constant<int, 1>{});
    if (widest <= 2 * kStageWidth) return start(integral_constant<int, 2>{});
    start(integral_constant<int, kMostStreamStages>{});
  });
}

}  // namespace fulmar::gpu
