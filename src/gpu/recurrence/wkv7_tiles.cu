// RWKV-7's chunked recurrence by 16 x 16 tiles (tile.h), for targets without the fragments of wkv7_chunk.cu:
// the products of wkv7_prepare.h, and the walk of tile_walk.h.
#include "gpu/recurrence/wkv7_tiles.h"

namespace fulmar::gpu {

size_t wkv7_tiles_workspace(int64_t chunks, int64_t n_head) {
  return static_cast<size_t>(chunks * n_head) * sizeof(TileChunk<2>);
}

void wkv7_tiles_prepare(const Queue& queue, const Chunks& chunks, int64_t n_head, const Projected7& p,
                        const RawProjected7& raw, void* workspace) {
  prepare_chunks7(queue, chunks, n_head, p, raw, static_cast<TiledChunk7<TargetLayout>*>(workspace));
}

void wkv7_tiles_walk(const Queue& queue, const Batch& batch, const ChunkWalk& walk) {
  walk_tiles<TargetLayout, 2>(queue, batch, walk);
}

}  // namespace fulmar::gpu
