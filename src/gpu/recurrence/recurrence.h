// The recurrences of RWKV-7 (a generalised delta rule) and RWKV-6 (linear attention with decay). Token by
// token: wkv.cu, wkv_single.cu, wkv_deferred.cu, wkv_few.cu. For long sequences with heads of 64 in chunks
// (chunkwise parallel): with mma.sync fragments in wkv7_chunk.cu and wkv6_chunk.cu, elsewhere with the tiles
// of tile.h in wkv7_tiles.cu and wkv6_tiles.cu. Shapes as in ops/ops.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "ops/batch.h"
#include "ops/state_field.h"
#include "rwkv6/weights.h"
#include "rwkv7/weights.h"

namespace fulmar::gpu {

// What a recurrence updates and writes, and which of the step's sequences it takes.
struct Recurrence {
  StateField wkv;
  Tensor y;                     // [rows, C]
  int multiprocessors = 0;      // SMs of the device
  int64_t longest = INT64_MAX;  // rows; longer sequences are skipped
  // Fuses the head end (heads of 64 only): y = (head_norm(output) + bonus) * g, without bonus in RWKV-6.
  bool leaves = false;
};

// Updates the states token by token and writes y.
void wkv7(const Queue&, const Batch&, const TimeMix7&, const Projected7&, const Recurrence&);
void wkv6(const Queue&, const Batch&, const TimeMix6&, const Projected6&, const Recurrence&);

// Replays the pending rows of one slot's ring (deferred state
// writes) into the states of all layers, in place; `states` is the
// slot's state or a copy of it.
void replay_ring(const Queue&, const State&, int64_t slot, std::byte* states);

// ---- in chunks
constexpr int kChunk = 16;  // rows of one chunk
// Chunks of at most kChunk rows, in order, none across two sequences; index arrays on the device.
struct Chunks {
  int64_t count = 0;
  const int32_t* row = nullptr;    // [count], first row
  const int32_t* rows = nullptr;   // [count]
  const int32_t* begin = nullptr;  // [sequences + 1], first chunk of each sequence; none for short ones
};

// The heads that a walk over chunks updates, and its memory.
struct ChunkWalk {
  const Chunks& chunks;
  int64_t n_head = 0;
  StateField wkv;
  Tensor y;                   // [rows, C]
  void* workspace = nullptr;  // what was prepared of the chunks
  int multiprocessors = 0;    // SMs of the device
};

size_t wkv7_chunk_workspace(int64_t chunks, int64_t n_head);  // bytes
// Fuses project7's elementwise tail (finish_project7) into the preparation of the chunks, for a p that holds
// raw GEMM outputs. Of the tail's results only v (or v_first) and `agreement` are stored.
struct RawProjected7 {
  const TimeMix7* att = nullptr;  // null: p is finished
  Tensor share;                   // GEMM output of the value residual, [rows, C]; empty in the first block
  Tensor v_first;                 // written in the first block
  Tensor agreement;               // f32 [rows, heads], for leave_heads7
};
void wkv7_chunk_prepare(const Queue&, const Chunks&, int64_t n_head, const Projected7&, const RawProjected7&,
                        void* workspace);
void wkv7_chunk_walk(const Queue&, const Batch&, const ChunkWalk&);

size_t wkv6_chunk_workspace(int64_t chunks, int64_t n_head);  // bytes
// Prepares the chunks and walks over them.
void wkv6_chunk(const Queue&, const Batch&, const float* bonus, const Projected6&, const ChunkWalk&);

// Returns the bytes of the workspace; the functions below do the same by tiles (tile.h).
size_t wkv7_tiles_workspace(int64_t chunks, int64_t n_head);  // bytes
void wkv7_tiles_prepare(const Queue&, const Chunks&, int64_t n_head, const Projected7&, const RawProjected7&,
                        void* workspace);
void wkv7_tiles_walk(const Queue&, const Batch&, const ChunkWalk&);

size_t wkv6_tiles_workspace(int64_t chunks, int64_t n_head);  // bytes
void wkv6_tiles(const Queue&, const Batch&, const float* bonus, const Projected6&, const ChunkWalk&);

}  // namespace fulmar::gpu
