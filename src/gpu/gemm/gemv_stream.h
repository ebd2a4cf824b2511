// Streams out[tiles, 16] = weights * one row on matrix units: a block's warps share the inputs, and weights
// go straight from memory to registers without a pause between tiles. Plain multiply-adds would not keep up
// with the memory. Of the instruction's eight columns, one takes the row and another its remainder, what
// rounding the row to 16 bits left over.
#pragma once

#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/device/launch_place.h"
#include "gpu/device/ptx.h"

namespace fulmar::gpu {

constexpr int kStreamWarps = 8;
constexpr int kStreamThreads = kStreamWarps * kWarp;
constexpr int kTileHalf = 8, kStreamTile = 2 * kTileHalf;  // outputs of a tile
constexpr int kStreamPiece = 64;                           // inputs that a warp takes at a time (K tile)
constexpr int kStreamAhead = 3;                            // pieces in flight
constexpr int kStreamVector = 8;                           // elements of 16 bytes

// A lane's weights of a tile: row lane / 4 of its lower and of its upper half, [K]
// each. high null: half a tile.
template <class T>
struct StreamTile {
  const T *low, *high;
};
__device__ __forceinline__ int stream_row_of_lane() { return threadIdx.x % kWarp / 4; }

// The layout of a block's inputs in shared memory: a warp's pieces lie together, and each piece has the row,
// then its remainder. Several rows of inputs follow one another.
struct StreamPlan {
  static constexpr int kPieceLoads = kStreamPiece / kStreamVector,
                       kPairLoads = 2 * kPieceLoads;  // vectors of a piece
  int each;                                           // pieces of this warp
  int most;                                           // of any warp

  __device__ explicit StreamPlan(int k)
      : each((k / kStreamPiece - static_cast<int>(threadIdx.x / kWarp) + kStreamWarps - 1) / kStreamWarps),
        most((k / kStreamPiece + kStreamWarps - 1) / kStreamWarps) {}
  // Returns the index in the row of the warp's i-th piece.
  __device__ int piece(int i) const { return static_cast<int>(threadIdx.x) / kWarp + i * kStreamWarps; }
  __device__ uint4* own(uint4* shared, int row) const {
    return shared + (row * kStreamWarps + static_cast<int>(threadIdx.x) / kWarp) * most * kPairLoads;
  }
  // Returns where this lane's column of the operand begins. Column 0 is the row, column 1 its remainder; the
  // results of the other columns are not used.
  __device__ const uint4* column(const uint4* own, bool pairs) const {
    const int lane = threadIdx.x % kWarp;
    return own + (lane / 4 == 0 || !pairs ? 0 : kPieceLoads) + lane % 4;
  }
};
constexpr size_t stream_shared_bytes(int64_t k, int64_t rows = 1) {
  constexpr int64_t kOfBlock = kStreamWarps * kStreamPiece;
  return static_cast<size_t>((k + kOfBlock - 1) / kOfBlock * kOfBlock * rows) * 2 * sizeof(uint16_t);
}
// The most shared memory to take: it reduces the L1 cache, through which weights come. With 28 KiB of cache
// left the speed was a tenth lower.
constexpr size_t kMostStreamShared = size_t{64} << 10;

// Inputs that another kernel has stored. `source(i)` returns those of tile i.
template <class T>
struct PairSource {
  const T *high, *remainder;  // [K]; remainder null: the row has none
};
template <class T, class SourceOf>
class StoredInputs {
 public:
  __device__ StoredInputs(const SourceOf& source, uint4* shared) : source_(source), shared_(shared) {}
  __device__ void prepare(const StreamPlan&) {}
  __device__ void complete(const StreamPlan&) {}
  __device__ const uint4* of(const StreamPlan& plan, int tile) {
    const PairSource<T> from = source_(tile);
    uint4* own = plan.own(shared_, 0);
    if (from.high != loaded_) {
      loaded_ = from.high;
      __syncwarp();
      for (int i = threadIdx.x % kWarp; i < plan.each * plan.kPairLoads; i += kWarp) {
        const T* row = i % plan.kPairLoads < plan.kPieceLoads ? from.high : from.remainder;
        if (row == nullptr) continue;
        const int at = plan.piece(i / plan.kPairLoads) * plan.kPieceLoads + i % plan.kPieceLoads;
        own[i] = reinterpret_cast<const uint4*>(row)[at];
      }
      __syncwarp();
    }
    return plan.column(own, from.remainder != nullptr);
  }

 private:
  const SourceOf& source_;
  uint4* shared_;
  const T* loaded_ = nullptr;
};

// Computes part[warp][i * 16 + j], the warp's share of the sum of output j of tile i. `tile_of(i)`, 0 <= i <
// tiles, returns a StreamTile; weights may be fetched before the previous kernel has finished (PDL). `inputs`
// does what it can before that in prepare() and the rest in complete(), which all threads call; of(plan, i)
// returns where the lane's inputs of tile i then lie. A warp without inputs (64 * warp >= k) does not write
// its part. remainder_factor: the factor of column 1.
template <class T, class TileOf, class Inputs, int kOuts>
__device__ __forceinline__ void stream_row(const TileOf& tile_of, Inputs& inputs, int tiles, int k,
                                           float remainder_factor, float (&part)[kStreamWarps][kOuts],
                                           LaunchPlace place = LaunchPlace::alone) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4, warp = threadIdx.x / kWarp;
  const StreamPlan plan(k);
  const int each = plan.each, total = each * tiles;
  constexpr int kBlockVectors = kStreamWarps * kStreamPiece / kStreamVector;
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
    low += kBlockVectors;
    to[2] = to[3] = uint4{};
    if (high != nullptr) {
      to[2] = __ldcs(high), to[3] = __ldcs(high + 4);
      high += kBlockVectors;
    }
    if (++fetched == each) {
      fetched = 0;
      if (++fetching < tiles) aim(fetching);
    }
  };
  const auto joined = [&](float column, float remainder) {
    return remainder_factor == 0 ? column : column + remainder * remainder_factor;
  };
  inputs.prepare(plan);
  if (total > 0) aim(0);
#pragma unroll
  for (int i = 0; i < kStreamAhead; i++) {
    if (i < total) fetch(w[i]);
  }
  pdl_wait_for_inputs(place);
  inputs.complete(plan);
  const uint4* x = total > 0 ? inputs.of(plan, 0) : nullptr;
  float sum[4] = {};
  int piece = 0, tile = 0;
  for (int base = 0; base < total; base += kStreamAhead) {
#pragma unroll
    for (int ahead = 0; ahead < kStreamAhead; ahead++) {
      const int i = base + ahead;
      if (i >= total) break;
      const uint4 x0 = x[piece * plan.kPairLoads], x1 = x[piece * plan.kPairLoads + 4];
      const uint4(&v)[4] = w[ahead];
      mma<T>(sum, v[0].x, v[2].x, v[0].y, v[2].y, x0.x, x0.y);
      mma<T>(sum, v[0].z, v[2].z, v[0].w, v[2].w, x0.z, x0.w);
      mma<T>(sum, v[1].x, v[3].x, v[1].y, v[3].y, x1.x, x1.y);
      mma<T>(sum, v[1].z, v[3].z, v[1].w, v[3].w, x1.z, x1.w);
      if (i + kStreamAhead < total) fetch(w[ahead]);
      if (++piece < each) continue;
      piece = 0;
      if (q == 0) {
        float* to = part[warp] + tile * kStreamTile + g;
        to[0] = joined(sum[0], sum[1]);
        to[kTileHalf] = joined(sum[2], sum[3]);
      }
      sum[0] = sum[1] = sum[2] = sum[3] = 0;
      if (++tile < tiles) x = inputs.of(plan, tile);
    }
  }
}

// Returns the sum of one output over all warps, added in order.
template <int kOuts>
__device__ __forceinline__ float stream_sum(const float (&part)[kStreamWarps][kOuts], int out, int k) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kStreamWarps; w++) sum += w * kStreamPiece < k ? part[w][out] : 0.0f;
  return sum;
}

}  // namespace fulmar::gpu
