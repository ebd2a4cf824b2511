// Walks a recurrence over chunks of 16 rows with 16 x 16 products (tile.h), for targets without the fragments
// of chunk_walk.h. Kernels of each RWKV version prepare the chunks.
//
// A block has 16 value channels of one head of one sequence, and its waves share the 64 key channels: each
// keeps its tiles of the state as f32 accumulators in registers and copies them to shared memory as f16
// operands. R, W, K, B, U as in wkv7_prepare.h; RWKV-6 has only the first `kind` (R, K, V).
#pragma once

#include "gpu/device/state_rounding.h"
#include "gpu/device/tile.h"
#include "gpu/math/head_size.h"
#include "gpu/recurrence/recurrence.h"

namespace fulmar::gpu {

constexpr int kTileWalkThreads = 128;
constexpr int kTilePad = 8;  // against bank conflicts; rows stay multiples of 16 bytes
constexpr int kWideRow = kHeadSize + kTilePad, kNarrowRow = kChunk + kTilePad;
static_assert(kChunk == kTile);

// A chunk of one head in global memory, for each kind.
template <int kKinds>
struct alignas(16) TileChunk {
  Half rows[kKinds][kChunk][kWideRow];     // R scaled by the decay up to each row; W
  Half keys[kKinds][kHeadSize][kChunk];    // K, B scaled by the decay after each row
  Half between[kKinds][kChunk][kChunk];    // M_rk, M_rb
  float decay[kHeadSize];                  // of the whole chunk
  Half values[kKinds][kHeadSize][kChunk];  // V^T, U~^T
};

// The chunk in shared memory, of V and U only 16 value channels.
template <int kKinds>
struct alignas(16) TileStage {
  Half rows[kKinds][kChunk][kWideRow];
  Half keys[kKinds][kHeadSize][kNarrowRow];
  Half between[kKinds][kChunk][kNarrowRow];
  float decay[kHeadSize];
  Half values[kKinds][kTile][kNarrowRow];
};

// A thread's share of a chunk, in registers between global and shared memory.
template <int kKinds>
class StagePieces {
 public:
  __device__ __forceinline__ void fetch(const TileChunk<kKinds>& chunk, int tile) {
    const int thread = opaque(static_cast<int>(threadIdx.x));
#pragma unroll
    for (int n = 0; n < kKinds; n++) {
      rows_[n] = pieces(chunk.rows[n])[wide_place(thread)];
      keys_[n] = pieces(chunk.keys[n])[thread];
    }
    if (thread < kSmall) {
      small_ = pieces(chunk.between[thread / kEach])[thread % kEach];
    } else if (thread < 2 * kSmall) {
      const int own = thread - kSmall;
      small_ = pieces(chunk.values[own / kEach])[tile * kEach + own % kEach];
    }
    if (thread < kDecays) decay_ = pieces(chunk.decay)[thread];
  }

  __device__ __forceinline__ void put(TileStage<kKinds>& stage) const {
    const int thread = opaque(static_cast<int>(threadIdx.x));
#pragma unroll
    for (int n = 0; n < kKinds; n++) {
      pieces(stage.rows[n])[wide_place(thread)] = rows_[n];
      pieces(stage.keys[n])[narrow_place(thread)] = keys_[n];
    }
    if (thread < kSmall) {
      pieces(stage.between[thread / kEach])[narrow_place(thread % kEach)] = small_;
    } else if (thread < 2 * kSmall) {
      const int own = thread - kSmall;
      pieces(stage.values[own / kEach])[narrow_place(own % kEach)] = small_;
    }
    if (thread < kDecays) pieces(stage.decay)[thread] = decay_;
  }

 private:
  static constexpr int kPiece = 8;                       // halves
  static constexpr int kEach = kTile * kChunk / kPiece;  // pieces of a tile
  static constexpr int kSmall = kKinds * kEach;          // the same for all kinds
  static constexpr int kDecays = kHeadSize * sizeof(float) / sizeof(uint4);
  static_assert(kChunk * kHeadSize / kPiece == kTileWalkThreads && 2 * kSmall <= kTileWalkThreads);

  // Returns the offset of piece i in padded rows of 64 and of 16.
  static __device__ constexpr int wide_place(int i) {
    return i / (kHeadSize / kPiece) * (kWideRow / kPiece) + i % (kHeadSize / kPiece);
  }
  static __device__ constexpr int narrow_place(int i) {
    return i / (kChunk / kPiece) * (kNarrowRow / kPiece) + i % (kChunk / kPiece);
  }
  template <class From>
  static __device__ __forceinline__ const uint4* pieces(const From& from) {
    return reinterpret_cast<const uint4*>(&from);
  }
  template <class To>
  static __device__ __forceinline__ uint4* pieces(To& to) {
    return reinterpret_cast<uint4*>(&to);
  }

  uint4 rows_[kKinds], keys_[kKinds], small_, decay_;
};

// Exchanged between the waves of a block.
template <int kKinds>
struct TileWalkShared {
  TileStage<kKinds> stage;
  Half state[kTile][kWideRow];  // f16, before the chunk
  float part[kKinds][kHeadTiles][kTile]
            [kTile + 1];      // shares of Y [row][value] and U [value][row] by key tile
  Half u[kTile][kNarrowRow];  // U^T
};

// Computes the partial sums of Y and U over this key tile of the state.
template <class Layout, int kKinds>
__device__ __forceinline__ void multiply_state(TileWalkShared<kKinds>& shared, int keys) {
  const int lane = tile_lane<Layout>();
  const Half* state = &shared.state[0][keys * kTile];
#pragma unroll
  for (int kind = 0; kind < kKinds; kind++) {
    const Half* rows = &shared.stage.rows[kind][0][keys * kTile];
    TileSums<Layout> sums = {};
    multiply_tiles<Layout>(kind == 0 ? rows : state, kWideRow, kind == 0 ? state : rows, kWideRow, sums);
#pragma unroll
    for (int i = 0; i < Layout::kSums; i++) {
      shared.part[kind][keys][Layout::row(lane, i)][Layout::column(lane)] = sums[i];
    }
  }
}

template <int kKinds>
__device__ __forceinline__ float sum_of_parts(const TileWalkShared<kKinds>& shared, int kind, int row,
                                              int column) {
  float sum = 0;
#pragma unroll
  for (int keys = 0; keys < kHeadTiles; keys++) sum += shared.part[kind][keys][row][column];
  return sum;
}

// Stores U^T; complete after the next barrier.
__device__ __forceinline__ void store_u(TileWalkShared<2>& shared) {
#pragma unroll
  for (int i = opaque(static_cast<int>(threadIdx.x)); i < kTile * kChunk; i += kTileWalkThreads) {
    const int v = i / kChunk, t = i % kChunk;
    shared.u[v][t] = operand_of(to_float(shared.stage.values[1][v][t]) + sum_of_parts(shared, 1, v, t));
  }
}

// Advances the state's tile of these keys.
template <class Layout, int kKinds>
__device__ __forceinline__ void advance_state(const TileWalkShared<kKinds>& shared, int keys,
                                              TileSums<Layout>& state) {
  const TileStage<kKinds>& stage = shared.stage;
  const float decay = stage.decay[keys * kTile + Layout::column(tile_lane<Layout>())];
#pragma unroll
  for (int i = 0; i < Layout::kSums; i++) state[i] *= decay;
#pragma unroll
  for (int kind = 0; kind < kKinds; kind++) {
    multiply_tiles<Layout>(kind == 0 ? stage.values[0][0] : shared.u[0], kNarrowRow,
                           stage.keys[kind][keys * kTile], kNarrowRow, state);
  }
}

// Writes the chunk's output, rows by value channels.
template <class Layout, class T, int kKinds>
__device__ __forceinline__ void emit_chunk(const TileWalkShared<kKinds>& shared, T* y, int64_t stride,
                                           int rows) {
  const int lane = tile_lane<Layout>(), column = Layout::column(lane);
  TileSums<Layout> sums;
#pragma unroll
  for (int i = 0; i < Layout::kSums; i++) sums[i] = sum_of_parts(shared, 0, Layout::row(lane, i), column);
#pragma unroll
  for (int kind = 0; kind < kKinds; kind++) {
    multiply_tiles<Layout>(shared.stage.between[kind][0], kNarrowRow,
                           kind == 0 ? shared.stage.values[0][0] : shared.u[0], kNarrowRow, sums);
  }
#pragma unroll
  for (int i = 0; i < Layout::kSums; i++) {
    const int t = Layout::row(lane, i);
    if (t < rows) y[t * stride + column] = from_float<T>(sums[i]);
  }
}

template <class Form, int kKinds, class T, class S>
__global__ void __launch_bounds__(kTileWalkThreads)
    tile_walk_kernel(Batch batch, Chunks chunks, const TileChunk<kKinds>* data, int64_t n_head,
                     Slots<S> slots, T* y, int64_t y_stride) {
  using Layout = ResolvedLayout<Form>;
  constexpr int kWaves = kTileWalkThreads / Layout::kLanes, kOwn = kHeadTiles / kWaves;
  __shared__ TileWalkShared<kKinds> shared;
  pdl_launch_next();
  pdl_wait();
  const int64_t head = blockIdx.x / kHeadTiles, sequence = blockIdx.y;
  const int tile = blockIdx.x % kHeadTiles;
  const int begin = chunks.begin[sequence], count = chunks.begin[sequence + 1] - begin;
  if (count == 0) return;
  const int64_t first_row = batch.start[sequence], rows = batch.start[sequence + 1] - first_row;
  const int wave = tile_wave<Layout>();
  const int64_t value = head * kHeadSize + tile * kTile;  // the block's first value channel
  S* own_state = slots[batch.slot[sequence]] + value * kHeadSize;
  // Returns the key channel of element i of the wave's tile n.
  const auto key_of = [&](int lane, int n) { return (wave * kOwn + n) * kTile + Layout::column(lane); };
  const auto place = [&](int lane, int n, int i) {
    return Layout::row(lane, i) * kHeadSize + key_of(lane, n);
  };
  TileSums<Layout> state[kOwn];
  const int first_lane = tile_lane<Layout>();
#pragma unroll
  for (int n = 0; n < kOwn; n++) {
#pragma unroll
    for (int i = 0; i < Layout::kSums; i++) state[n][i] = to_float(own_state[place(first_lane, n, i)]);
  }
  const TileChunk<kKinds>* next = data + begin * n_head + head;
  StagePieces<kKinds> pieces;
  pieces.fetch(*next, tile);
  T* to = y + first_row * y_stride + value;
  for (int chunk = 0; chunk < count; chunk++, to += kChunk * y_stride) {
    pieces.put(shared.stage);
    const int lane = tile_lane<Layout>();
#pragma unroll
    for (int n = 0; n < kOwn; n++) {
#pragma unroll
      for (int i = 0; i < Layout::kSums; i++) {
        shared.state[Layout::row(lane, i)][key_of(lane, n)] = operand_of(state[n][i]);
      }
    }
    __syncthreads();
    next += n_head;
    if (chunk + 1 < count) pieces.fetch(*next, tile);
#pragma unroll
    for (int n = 0; n < kOwn; n++) multiply_state<Layout>(shared, wave * kOwn + n);
    __syncthreads();
    if constexpr (kKinds == 2) {
      store_u(shared);
      __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < kOwn; n++) advance_state<Layout>(shared, wave * kOwn + n, state[n]);
    if (wave == kWaves - 1) {
      const int64_t left = rows - int64_t{chunk} * kChunk;
      emit_chunk<Layout>(shared, to, y_stride, static_cast<int>(left < kChunk ? left : kChunk));
    }
    __syncthreads();
  }
  const int lane = tile_lane<Layout>();
#pragma unroll
  for (int n = 0; n < kOwn; n++) {
#pragma unroll
    for (int i = 0; i < Layout::kSums; i++) own_state[place(lane, n, i)] = state_number<S>(state[n][i]);
  }
}

template <class Form, int kKinds>
void walk_tiles(const Queue& queue, const Batch& batch, const ChunkWalk& walk) {
  const dim3 grid(static_cast<unsigned>(walk.n_head * kHeadTiles), static_cast<unsigned>(batch.sequences));
  with_activation(walk.y.dtype, [&](auto sample) {
    using T = decltype(sample);
    const auto with = [&](auto state) {
      using S = decltype(state);
      launch(queue, tile_walk_kernel<Form, kKinds, T, S>, grid, dim3(kTileWalkThreads), 0, batch, walk.chunks,
             static_cast<const TileChunk<kKinds>*>(walk.workspace), walk.n_head, slots_of<S>(walk.wkv),
             walk.y.as<T>(), walk.y.stride);
    };
    walk.wkv.dtype == DType::f32 ? with(float{}) : with(Half{});
  });
}

}  // namespace fulmar::gpu
