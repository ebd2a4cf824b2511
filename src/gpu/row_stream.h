// out[tiles, 16] = weights * one row on matrix units, streamed: a block's warps share the inputs, and weights
// come straight from memory into registers without a pause between tiles. Plain multiply-adds would not keep
// up with the memory, and of the eight columns that an instruction has, one takes the row and another what
// rounding left of it.
#pragma once

#include "gpu/element.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

constexpr int kStreamWarps = 8;
constexpr int kStreamThreads = kStreamWarps * kWarp;
constexpr int kTileHalf = 8, kStreamTile = 2 * kTileHalf;  // outputs of a tile
constexpr int kStreamPiece = 64;                           // inputs that a warp takes at a time
constexpr int kStreamAhead = 3;                            // pieces on their way
constexpr int kStreamVector = 8;                           // elements of 16 bytes

// Where a lane finds its part of a tile.
template <class T>
struct StreamTile {
  const T *low, *high;  // [K], rows lane / 4 of both halves; high null: half a tile
  const T *in, *left;   // [K]; left: what rounding left of `in`, or null
};
__device__ __forceinline__ int stream_row_of_lane() { return threadIdx.x % kWarp / 4; }

// Shared memory that a block gives to stream_row. Where it is scarce, so is the cache through which weights
// come: 28 KiB of cache cost a tenth of the speed.
constexpr size_t kMostStreamShared = size_t{64} << 10;
constexpr size_t stream_shared_bytes(int64_t k) {
  constexpr int64_t kOfBlock = kStreamWarps * kStreamPiece;
  return static_cast<size_t>((k + kOfBlock - 1) / kOfBlock * kOfBlock) * 2 * sizeof(uint16_t);
}

// A warp's inputs in shared memory: of each of its pieces the row, then what is left of it.
template <class T>
class StreamInputs {
 public:
  __device__ StreamInputs(uint4* shared, int pieces)
      : each_((pieces - warp() + kStreamWarps - 1) / kStreamWarps),
        own_(shared + warp() * ((pieces + kStreamWarps - 1) / kStreamWarps) * kBoth) {}

  __device__ int each() const { return each_; }
  // Where this lane's column of the products begins. Column 0 is the row itself, column 1 what is left of it;
  // nobody looks at the others.
  __device__ const uint4* column() const {
    const int lane = threadIdx.x % kWarp;
    return own_ + (lane / 4 == 0 || loaded_.left == nullptr ? 0 : kOne) + lane % 4;
  }
  __device__ void load(const StreamTile<T>& from) {
    if (from.in == loaded_.in) return;
    loaded_ = from;
    __syncwarp();
    for (int i = threadIdx.x % kWarp; i < each_ * kBoth; i += kWarp) {
      const T* row = i % kBoth < kOne ? from.in : from.left;
      if (row == nullptr) continue;
      const int piece = warp() + i / kBoth * kStreamWarps;
      own_[i] = reinterpret_cast<const uint4*>(row)[piece * kOne + i % kOne];
    }
    __syncwarp();
  }
  static constexpr int kOne = kStreamPiece / kStreamVector, kBoth = 2 * kOne;  // vectors of a piece

 private:
  __device__ static int warp() { return threadIdx.x / kWarp; }
  int each_;  // pieces of this warp
  uint4* own_;
  StreamTile<T> loaded_{};
};

// part[warp][i * 16 + j]: what the warp's inputs give for output j of tile i. `tile_of(i)`, 0 <= i < tiles,
// gives a StreamTile; weights may be fetched before the kernel in front has finished, inputs only after that.
// A warp that gets no inputs (64 * warp >= k) leaves its part as it is. left_factor: what column 1 counts
// for. shared: stream_shared_bytes(k).
template <class T, class TileOf, int kOuts>
__device__ __forceinline__ void stream_row(const TileOf& tile_of, int tiles, int k, float left_factor,
                                           uint4* shared, float (&part)[kStreamWarps][kOuts]) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4, warp = threadIdx.x / kWarp;
  StreamInputs<T> inputs(shared, k / kStreamPiece);
  const int each = inputs.each(), total = each * tiles;
  constexpr int kStride = kStreamWarps * kStreamPiece / kStreamVector;
  uint4 w[kStreamAhead][4];  // (low row, high row) x (first, second half of the piece)
  int fetched = 0;           // pieces of the tile being fetched
  int fetching = 0;
  const uint4 *low = nullptr, *high = nullptr;
  const auto aim = [&](int tile) {
    const StreamTile<T> at = tile_of(tile);
    const int own = warp * (kStreamPiece / kStreamVector) + q;
    low = reinterpret_cast<const uint4*>(at.low) + own;
    high = at.high != nullptr ? reinterpret_cast<const uint4*>(at.high) + own : nullptr;
  };
  const auto fetch = [&](uint4(&to)[4]) {
    to[0] = __ldcs(low), to[1] = __ldcs(low + 4);
    low += kStride;
    to[2] = to[3] = uint4{};
    if (high != nullptr) {
      to[2] = __ldcs(high), to[3] = __ldcs(high + 4);
      high += kStride;
    }
    if (++fetched == each) {
      fetched = 0;
      if (++fetching < tiles) aim(fetching);
    }
  };
  const auto joined = [&](float column, float left) {
    return left_factor == 0 ? column : column + left * left_factor;
  };
  if (total > 0) aim(0);
#pragma unroll
  for (int i = 0; i < kStreamAhead; i++) {
    if (i < total) fetch(w[i]);
  }
  wait_for_previous();
  if (total > 0) inputs.load(tile_of(0));
  const uint4* x = inputs.column();
  float sum[4] = {};
  int piece = 0, tile = 0;
  for (int base = 0; base < total; base += kStreamAhead) {
#pragma unroll
    for (int ahead = 0; ahead < kStreamAhead; ahead++) {
      const int i = base + ahead;
      if (i >= total) break;
      const uint4 x0 = x[piece * inputs.kBoth], x1 = x[piece * inputs.kBoth + 4];
      const uint4(&v)[4] = w[ahead];
      matrix_multiply_add<T>(sum, v[0].x, v[2].x, v[0].y, v[2].y, x0.x, x0.y);
      matrix_multiply_add<T>(sum, v[0].z, v[2].z, v[0].w, v[2].w, x0.z, x0.w);
      matrix_multiply_add<T>(sum, v[1].x, v[3].x, v[1].y, v[3].y, x1.x, x1.y);
      matrix_multiply_add<T>(sum, v[1].z, v[3].z, v[1].w, v[3].w, x1.z, x1.w);
      if (i + kStreamAhead < total) fetch(w[ahead]);
      if (++piece < each) continue;
      piece = 0;
      if (q == 0) {
        float* to = part[warp] + tile * kStreamTile + g;
        to[0] = joined(sum[0], sum[1]);
        to[kTileHalf] = joined(sum[2], sum[3]);
      }
      sum[0] = sum[1] = sum[2] = sum[3] = 0;
      if (++tile < tiles) inputs.load(tile_of(tile));
    }
  }
}

// What all warps found for one output, in order.
template <int kOuts>
__device__ __forceinline__ float stream_sum(const float (&part)[kStreamWarps][kOuts], int out, int k) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kStreamWarps; w++) sum += w * kStreamPiece < k ? part[w][out] : 0.0f;
  return sum;
}

}  // namespace fulmar::gpu
