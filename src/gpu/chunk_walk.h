// Walking a recurrence over chunks of 16 rows on matrix units, the state of 16 value channels by 64 key
// channels in each warp's registers. What a chunk brings with it differs between the RWKV versions: `Data` is
// made by their own kernels, and `walk_chunk(data, tile, state, y)` moves the state on.
//
// Lane 4g+q of a warp has the value channels g and g + 8 of its tile. Its key channels are 16q..16q+15, so
// that the state's rows are read and written in whole pieces: accumulator tile j, element e is key
// 16q + 2j + e % 2 of value g + e / 2 * 8.
#pragma once

#include "gpu/element.h"
#include "gpu/head_math.h"
#include "gpu/kernels.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

constexpr int kHeadTiles = kHeadSize / 16;  // tiles of 16 value channels
constexpr int kWalkWarps = kHeadTiles;      // of a block: one per tile
// Chunks in shared memory: where there are fewer blocks than multiprocessors, each has to hide the memory's
// latency by itself.
constexpr int kStages = 3, kStagesAlone = 6;

using WalkState = float[8][4];
using WalkOutput = float[2][4];  // y^T [16 values, 16 rows]: tile of 8 rows, accumulator element

// Where key channel `key` stands among the columns of accumulator tiles: tile, and column g within it.
__device__ constexpr int tile_of(int key) { return key % 16 / 2; }
__device__ constexpr int column_of(int key) { return 2 * (key / 16) + key % 2; }

// Operands of the state's update: pairs of rows by key channel, and V^T (or the like) as left operand. Lanes
// are shuffled so that the kernels which put them together write to different banks.
using KeyOperand = Half[8][kWarp][4];           // [tile j][key_place(j, lane)][rows 2q, 2q+1, 2q+8, 2q+9]
using ValueOperand = uint4[kHeadTiles][kWarp];  // [tile][value_place(tile, lane)]
__device__ constexpr int key_place(int tile, int lane) { return lane ^ tile; }
__device__ constexpr int value_place(int tile, int lane) { return lane ^ lane >> 3 ^ (tile & 1) << 2; }

// One 16 x 16 product of two factors [16 rows, 64 keys] over a warp: accumulator tile n is columns 8n to
// 8n + 7.
using Factor = Half[kChunk][kHeadSize + 8];  // padded against bank conflicts
__device__ __forceinline__ void multiply_factors(const Factor& left, const Factor& right,
                                                 float (&sum)[2][4]) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const auto word = [](const Half* at) { return *reinterpret_cast<const uint32_t*>(at); };
#pragma unroll
  for (int step = 0; step < kHeadSize / 16; step++) {
    const int at = step * 16 + 2 * q;
    const uint32_t a0 = word(&left[g][at]), a1 = word(&left[g + 8][at]), a2 = word(&left[g][at + 8]),
                   a3 = word(&left[g + 8][at + 8]);
#pragma unroll
    for (int n = 0; n < 2; n++) {
      matrix_multiply_add<Half>(sum[n], a0, a1, a2, a3, word(&right[n * 8 + g][at]),
                                word(&right[n * 8 + g][at + 8]));
    }
  }
}

template <class S>
__device__ void load_state(const S* row, WalkState& s, int element) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    const Float4 v = load4(row + 2 * j);
    s[j][element] = v.x[0], s[j][element + 1] = v.x[1];
    s[j + 1][element] = v.x[2], s[j + 1][element + 1] = v.x[3];
  }
}
template <class S>
__device__ void store_state(S* row, const WalkState& s, int element) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    store4(row + 2 * j, Float4{{s[j][element], s[j][element + 1], s[j + 1][element], s[j + 1][element + 1]}});
  }
}

template <class Data, class T, class S, int kStages>
__global__ void __launch_bounds__(kWalkWarps* kWarp)
    chunk_walk_kernel(Batch batch, Chunks chunks, const Data* data, int64_t n_head, Slots<S> slots, T* y,
                      int64_t y_stride) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* stages = reinterpret_cast<Data*>(shared);
  let_next_start();
  wait_for_previous();
  const int64_t head = blockIdx.x, sequence = blockIdx.y;
  const int64_t begin = chunks.begin[sequence], end = chunks.begin[sequence + 1];
  if (begin == end) return;
  const int64_t first_row = batch.start[sequence], last_row = batch.start[sequence + 1];
  const int tile = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;

  const auto fetch = [&](int64_t chunk) {
    if (chunk < end) {
      const auto* from = reinterpret_cast<const unsigned char*>(&data[chunk * n_head + head]);
      auto* to = reinterpret_cast<unsigned char*>(&stages[(chunk - begin) % kStages]);
      for (unsigned at = threadIdx.x * 16; at < sizeof(Data); at += kWalkWarps * kWarp * 16) {
        __pipeline_memcpy_async(to + at, from + at, 16);
      }
    }
    __pipeline_commit();  // also when there is nothing: waiting counts commits
  };
#pragma unroll
  for (int stage = 0; stage < kStages - 1; stage++) fetch(begin + stage);

  const int64_t value = head * kHeadSize + tile * 16 + g;  // this lane's first value channel
  S* row = slots[batch.slot[sequence]] + value * kHeadSize + 16 * q;
  WalkState state;
  load_state(row, state, 0);
  load_state(row + 8 * kHeadSize, state, 2);
  for (int64_t chunk = begin; chunk < end; chunk++) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    fetch(chunk + kStages - 1);  // into the place of the chunk that all have just left
    WalkOutput out;
    walk_chunk(stages[(chunk - begin) % kStages], tile, state, out);
    const int64_t first = first_row + (chunk - begin) * kChunk;
    const int64_t rows = min(last_row - first, static_cast<int64_t>(kChunk));
    T* to = y + (first + 2 * q) * y_stride + value;
#pragma unroll
    for (int n = 0; n < 2; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int t = n * 8 + i % 2;
        if (2 * q + t < rows) to[t * y_stride + i / 2 * 8] = from_float<T>(out[n][i]);
      }
    }
  }
  store_state(row, state, 0);
  store_state(row + 8 * kHeadSize, state, 2);
}

template <class T, class S, int kStages, class Data>
void walk_chunks_of(const Queue& queue, const Batch& batch, const Chunks& chunks, int64_t n_head,
                    StateField wkv, Tensor y, const Data* data) {
  constexpr size_t kShared = kStages * sizeof(Data);
  const auto kernel = chunk_walk_kernel<Data, T, S, kStages>;
  static const bool allowed = [kernel] {
    allow_shared(kernel, kShared);
    return true;
  }();
  (void)allowed;
  const dim3 grid(static_cast<unsigned>(n_head), static_cast<unsigned>(batch.sequences));
  launch(queue, kernel, grid, dim3(kWalkWarps * kWarp), kShared, batch, chunks, data, n_head,
         slots_of<S>(wkv), y.as<T>(), y.stride);
}

template <class Data>
void walk_chunks(const Queue& queue, const Batch& batch, const Chunks& chunks, int64_t n_head, StateField wkv,
                 Tensor y, const Data* data, int multiprocessors) {
  const bool alone = n_head * batch.sequences <= multiprocessors;
  with_activation(y.dtype, [&](auto sample) {
    using T = decltype(sample);
    const auto with = [&](auto state) {
      using S = decltype(state);
      if (alone) return walk_chunks_of<T, S, kStagesAlone>(queue, batch, chunks, n_head, wkv, y, data);
      walk_chunks_of<T, S, kStages>(queue, batch, chunks, n_head, wkv, y, data);
    };
    wkv.dtype == DType::f32 ? with(float{}) : with(Half{});
  });
}

}  // namespace fulmar::gpu
