// How two launches of few rows' products, one of codes and one of 16 bits, share the GPU side by side
// (device/launch_place.h): pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fulmar::gpu {

// What a launch streams: tiles of 16 outputs, each by one block.
struct TileStream {
  int64_t tiles, bytes;  // bytes: of a tile
};

// Blocks at once; first 0: the two had better go one after the other.
struct SkinnyPair {
  int64_t first = 0, second = 0;
};

// The shares by which the longest block has the least to read. A block of either has whole tiles, and
// `resident` blocks run at once.
constexpr SkinnyPair plan_skinny_pair(const TileStream& first, const TileStream& second, int64_t resident) {
  SkinnyPair best;
  int64_t least = 0;
  for (int64_t each = 1; each <= first.tiles; each++) {
    const int64_t blocks = (first.tiles + each - 1) / each, left = resident - blocks;
    if (left <= 0) continue;
    const int64_t rounds = (second.tiles + left - 1) / left;
    const int64_t longest = std::max(each * first.bytes, rounds * second.bytes);
    if (best.first == 0 || longest < least) best = {blocks, std::min(left, second.tiles)}, least = longest;
    if (rounds == 1) break;
  }
  return best;
}

}  // namespace fulmar::gpu
