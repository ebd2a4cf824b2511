// RWKV-6's chunked recurrence by 16 x 16 tiles (tile.h), for targets without the fragments of wkv6_chunk.cu:
// the products of wkv6_prepare.h, and the walk of tile_walk.h.
#include "gpu/recurrence/tile_walk.h"
#include "gpu/recurrence/wkv6_prepare.h"

namespace fulmar::gpu {

namespace {

template <class Form>
struct TiledChunk6 : TileChunk<1> {
  __device__ __forceinline__ Half* r_row(int t) { return rows[0][t]; }
  __device__ __forceinline__ void put_rows(int t, int c, uint32_t key, uint32_t value) {
    *reinterpret_cast<uint32_t*>(&keys[0][c][t]) = key;
    *reinterpret_cast<uint32_t*>(&values[0][c][t]) = value;
  }

  // Multiplies the factors of each level. Entries of other levels are selected away, not multiplied by zero.
  __device__ __forceinline__ static void multiply_levels(const Prepare6Shared& shared, TiledChunk6& out) {
    using Layout = ResolvedLayout<Form>;
    constexpr int kWaves = kPrepare6Threads / Layout::kLanes;
    const int lane = tile_lane<Layout>(), s = Layout::column(lane);
    for (int level = tile_wave<Layout>(); level < kLevels; level += kWaves) {
      const Factor &left = level == 0 ? shared.left : shared.level[level], &right = shared.level[level];
      TileSums<Layout> sums = {};
#pragma unroll
      for (int at = 0; at < kHeadSize; at += kTile) {
        multiply_tiles<Layout>(&left[0][at], kWideRow, &right[0][at], kWideRow, sums);
      }
#pragma unroll
      for (int i = 0; i < Layout::kSums; i++) {
        const int t = Layout::row(lane, i);
        if (level_of_entry(t, s) == level) out.between[0][t][s] = operand_of(s > t ? 0.0f : sums[i]);
      }
    }
  }
};

}  // namespace

size_t wkv6_tiles_workspace(int64_t chunks, int64_t n_head) {
  return static_cast<size_t>(chunks * n_head) * sizeof(TileChunk<1>);
}

void wkv6_tiles(const Queue& queue, const Batch& batch, const float* bonus, const Projected6& p,
                const ChunkWalk& walk) {
  auto* const chunks = static_cast<TiledChunk6<TargetLayout>*>(walk.workspace);
  prepare_chunks6(queue, walk.chunks, walk.n_head, bonus, p, chunks);
  walk_tiles<TargetLayout, 1>(queue, batch, walk);
}

}  // namespace fulmar::gpu
