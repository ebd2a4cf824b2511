// How blocks that stream weights share tiles of outputs: equal shares, each a piece of memory without gaps.
// What is left after whole tiles goes round by halves, so that no block has much more to do.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

constexpr int kBlockTileHalf = 8, kBlockTile = 2 * kBlockTileHalf;  // outputs of a tile

// A block's tiles: `whole` that follow one another, and perhaps one more or half of one.
struct BlockTiles {
  int whole, last, half;  // last: a tile or -1; half: 0 or 1 of it, or -1 for both
  __device__ explicit BlockTiles(int tiles) {
    const int block = blockIdx.x, blocks = gridDim.x;
    whole = tiles / blocks;
    const int rest = tiles % blocks;
    const bool halves = 2 * rest <= blocks;
    half = halves ? block % 2 : -1;
    last = whole * blocks + (halves ? block / 2 : block);
    if (last >= tiles) last = -1;
  }
  __device__ int count() const { return whole + (last >= 0 ? 1 : 0); }
  __device__ int tile(int i) const { return i < whole ? static_cast<int>(blockIdx.x) * whole + i : last; }
  __device__ bool is_half(int i) const { return i == whole && half >= 0; }
  // The first output of tile i that is the block's, within the tile; how many there are.
  __device__ int begin(int i) const { return is_half(i) ? half * kBlockTileHalf : 0; }
  __device__ int outs(int i) const { return is_half(i) ? kBlockTileHalf : kBlockTile; }
};

}  // namespace fulmar::gpu
