// Divides the GPU between two skinny launches that run side by side, one of codes and one of 16-bit weights
// (device/launch_place.h): pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fulmar::gpu {

// The weights that a launch streams: tiles of 16 outputs, each read by one block.
struct TileStream {
  int64_t tiles, bytes;  // bytes: of a tile
};

// Concurrent blocks of each launch; first 0: better run the two one after the other.
struct SkinnyPair {
  int64_t first = 0, second = 0;
};

// Returns the shares for which the busiest block reads the fewest bytes. A block of either launch takes whole
// tiles, and `resident` blocks run at once.
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
