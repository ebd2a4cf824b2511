// Walks a recurrence over chunks of 16 rows with mma.sync; each warp holds the state of 16 value channels by
// 64 key channels in registers. The RWKV versions differ in a chunk's `Data`, which kernels of their own
// prepare: `Data::advance(data, tile, state, passed)` moves the state through the chunk, and
// `Data::emit(data, tile, passed, y)` computes the chunk's output from `passed`.
//
// Warp specialisation: a block has one head of one sequence, or half of its value channels. Chunks are
// sequential, so the latency of one is what counts: some warps only advance the state, others compute the
// outputs of the chunk before, and one loads the next chunks.
//
// Lane 4g+q of a warp has the value channels g and g + 8 of its tile. Its key channels are 16q..16q+15, so
// that rows of the state are read and written in contiguous pieces: accumulator tile j, element e is key 16q
// + 2j + e % 2 of value g + e / 2 * 8.
#pragma once

#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/device/ptx.h"
#include "gpu/device/state_rounding.h"
#include "gpu/math/head_math.h"
#include "gpu/recurrence/factor.h"
#include "gpu/recurrence/recurrence.h"

namespace fulmar::gpu {

// Returns the threads of a block: a warp for each tile's state, one for its output, and one that loads.
template <int kTiles>
constexpr int kWalkThreads = (2 * kTiles + 1) * kWarp;
constexpr int kWalkStages = 5;  // chunks in shared memory

using WalkState = float[8][4];
using WalkOutput = float[2][4];  // y^T [16 values, 16 rows]: tile of 8 rows, accumulator element

// What a chunk's output needs besides its own data: the state before it, and what the chunk adds to V
// (RWKV-7's U), both as left operands of mma.
struct alignas(16) Passed {
  uint32_t s[8][2];
  uint32_t u[4];
};
constexpr int kPassedPieces = sizeof(Passed) / sizeof(uint4);
using PassedPlace = uint4[kPassedPieces][kWarp];

__device__ __forceinline__ void pass_on(const Passed& passed, PassedPlace& place) {
  const auto* from = reinterpret_cast<const uint4*>(&passed);
#pragma unroll
  for (int i = 0; i < kPassedPieces; i++) place[i][threadIdx.x % kWarp] = from[i];
}
__device__ __forceinline__ void take_over(const PassedPlace& place, Passed& passed) {
  auto* to = reinterpret_cast<uint4*>(&passed);
#pragma unroll
  for (int i = 0; i < kPassedPieces; i++) to[i] = place[i][threadIdx.x % kWarp];
}

__device__ __forceinline__ void pack_state(const WalkState& state, Passed& passed) {
#pragma unroll
  for (int j = 0; j < 8; j++) {
    passed.s[j][0] = pack_floats<Half>(state[j][0], state[j][1]);
    passed.s[j][1] = pack_floats<Half>(state[j][2], state[j][3]);
  }
}

// Returns the accumulator tile, and the column g within it, that hold key channel `key`.
__device__ constexpr int tile_of(int key) { return key % 16 / 2; }
__device__ constexpr int column_of(int key) { return 2 * (key / 16) + key % 2; }

// Operands of the state's update: pairs of rows by key channel, and V^T (or U^T) as left operand. Lanes are
// permuted so that the preparing kernels write without bank conflicts.
using KeyOperand = Half[8][kWarp][4];           // [tile j][key_place(j, lane)][rows 2q, 2q+1, 2q+8, 2q+9]
using ValueOperand = uint4[kHeadTiles][kWarp];  // [tile][value_place(tile, lane)]
__device__ constexpr int key_place(int tile, int lane) { return lane ^ tile; }
__device__ constexpr int value_place(int tile, int lane) { return lane ^ lane >> 3 ^ (tile & 1) << 2; }

// Multiplies two factors [16 rows, 64 keys] to a 16 x 16 product over a warp: accumulator tile n has the
// columns 8n to 8n + 7.
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
      mma<Half>(sum[n], a0, a1, a2, a3, word(&right[n * 8 + g][at]), word(&right[n * 8 + g][at + 8]));
    }
  }
}

template <class S>
__device__ void load_walk_state(const S* row, WalkState& s, int element) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    const Float4 v = load4(row + 2 * j);
    s[j][element] = v.x[0], s[j][element + 1] = v.x[1];
    s[j + 1][element] = v.x[2], s[j + 1][element + 1] = v.x[3];
  }
}
template <class S>
__device__ void store_walk_state(S* row, const WalkState& s, int element) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    store_state4(row + 2 * j,
                 Float4{{s[j][element], s[j][element + 1], s[j + 1][element], s[j + 1][element + 1]}});
  }
}

// Sets y to the part of the chunk's output that comes from the state before it; `r` is R
// scaled by the decay up to each row.
__device__ __forceinline__ void emit_state(const Factor& r, const Passed& passed, WalkOutput& y) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const auto& s = passed.s;
#pragma unroll
  for (int n = 0; n < 2; n++) {
    const auto* row = reinterpret_cast<const uint4*>(&r[n * 8 + g][16 * q]);
    const uint4 r0 = row[0], r1 = row[1];
    y[n][0] = y[n][1] = y[n][2] = y[n][3] = 0;
    mma<Half>(y[n], s[0][0], s[0][1], s[1][0], s[1][1], r0.x, r0.y);
    mma<Half>(y[n], s[2][0], s[2][1], s[3][0], s[3][1], r0.z, r0.w);
    mma<Half>(y[n], s[4][0], s[4][1], s[5][0], s[5][1], r1.x, r1.y);
    mma<Half>(y[n], s[6][0], s[6][1], s[7][0], s[7][1], r1.z, r1.w);
  }
}
// Adds the part that comes from the chunk's own rows: `left` (V^T or U^T) times `between` (M), the latter as
// [row tile][half of the inner rows].
__device__ __forceinline__ void emit_rows(const uint4& left, const uint4& between, WalkOutput& y) {
  mma<Half>(y[0], left.x, left.y, left.z, left.w, between.x, between.y);
  mma<Half>(y[1], left.x, left.y, left.z, left.w, between.z, between.w);
}

// Stores one warp's chunk of y.
template <class T>
__device__ __forceinline__ void store_output(const WalkOutput& out, T* to, int64_t stride, int rows) {
  const int q = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < 2; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int t = n * 8 + 2 * q + i % 2;
      if (t < rows) to[t * stride + i / 2 * 8] = from_float<T>(out[n][i]);
    }
  }
}

template <class Data, class T, class S, int kTiles>
__global__ void __launch_bounds__(kWalkThreads<kTiles>, kHeadTiles / kTiles == 1 ? 2 : 1)
    chunk_walk_kernel(Batch batch, Chunks chunks, const Data* data, int64_t n_head, Slots<S> slots, T* y,
                      int64_t y_stride) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ PassedPlace places[2][kTiles];
  auto* stages = reinterpret_cast<Data*>(shared);
  pdl_launch_next();
  pdl_wait();
  constexpr int kParts = kHeadTiles / kTiles;
  const int64_t head = blockIdx.x / kParts, sequence = blockIdx.y;
  const int begin = chunks.begin[sequence], count = chunks.begin[sequence + 1] - begin;
  if (count == 0) return;
  const int64_t first_row = batch.start[sequence], rows = batch.start[sequence + 1] - first_row;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const int role = warp / kTiles, own = warp % kTiles;  // state, output or loading
  const int tile = blockIdx.x % kParts * kTiles + own;

  const Data* next = data + begin * n_head + head;
  const auto fetch = [&](int chunk) {
    if (chunk < count) {
      const auto* from = reinterpret_cast<const unsigned char*>(next) + lane * 16;
      auto* to = reinterpret_cast<unsigned char*>(&stages[chunk % kWalkStages]) + lane * 16;
#pragma unroll
      for (unsigned at = 0; at < sizeof(Data); at += kWarp * 16) {
        if (at + lane * 16 < sizeof(Data)) __pipeline_memcpy_async(to + at, from + at, 16);
      }
      next += n_head;
    }
    __pipeline_commit();  // also empty ones: the wait counts commits
  };
  const int64_t value = head * kHeadSize + tile * 16 + g;  // this lane's first value channel
  S* row = slots[batch.slot[sequence]] + value * kHeadSize + 16 * q;
  WalkState state;
  if (role == 0) {
    load_walk_state(row, state, 0);
    load_walk_state(row + 8 * kHeadSize, state, 2);
  } else if (role == 2) {
#pragma unroll
    for (int chunk = 0; chunk < kWalkStages - 2; chunk++) fetch(chunk);
  }
  T* to = y + first_row * y_stride + value;
  // Iteration i advances the state through chunk i and computes the output of chunk i - 1.
  for (int i = 0; i <= count; i++) {
    if (role == 2) __pipeline_wait_prior(kWalkStages - 3);
    __syncthreads();
    if (role == 2) {
      fetch(i + kWalkStages - 2);  // into the stage that all warps have just released
    } else if (role == 0 && i < count) {
      Passed passed;
      Data::advance(stages[i % kWalkStages], tile, state, passed);
      pass_on(passed, places[i % 2][own]);
    } else if (role == 1 && i > 0) {
      Passed passed;
      take_over(places[(i - 1) % 2][own], passed);
      WalkOutput out;
      Data::emit(stages[(i - 1) % kWalkStages], tile, passed, out);
      store_output(out, to, y_stride, static_cast<int>(min(rows - int64_t{i - 1} * kChunk, int64_t{kChunk})));
      to += kChunk * y_stride;
    }
  }
  if (role != 0) return;
  store_walk_state(row, state, 0);
  store_walk_state(row + 8 * kHeadSize, state, 2);
}

template <class T, class S, int kTiles, class Data>
void walk_chunks_of(const Queue& queue, const Batch& batch, const ChunkWalk& walk) {
  constexpr size_t kWalkSharedBytes = kWalkStages * sizeof(Data);
  const auto kernel = chunk_walk_kernel<Data, T, S, kTiles>;
  allow_shared(kernel, kWalkSharedBytes);
  const dim3 grid(static_cast<unsigned>(walk.n_head * kHeadTiles / kTiles),
                  static_cast<unsigned>(batch.sequences));
  launch(queue, kernel, grid, dim3(kWalkThreads<kTiles>), kWalkSharedBytes, batch, walk.chunks,
         static_cast<const Data*>(walk.workspace), walk.n_head, slots_of<S>(walk.wkv), walk.y.as<T>(),
         walk.y.stride);
}

template <class Data>
void walk_chunks(const Queue& queue, const Batch& batch, const ChunkWalk& walk) {
  constexpr int kHalf = kHeadTiles / 2;
  const bool halves =
      2 * walk.n_head * batch.sequences <= walk.multiprocessors;  // otherwise the grid fills the GPU
  with_activation(walk.y.dtype, [&](auto sample) {
    using T = decltype(sample);
    const auto with = [&](auto state) {
      using S = decltype(state);
      if (halves) return walk_chunks_of<T, S, kHalf, Data>(queue, batch, walk);
      walk_chunks_of<T, S, kHeadTiles, Data>(queue, batch, walk);
    };
    walk.wkv.dtype == DType::f32 ? with(float{}) : with(Half{});
  });
}

}  // namespace fulmar::gpu
