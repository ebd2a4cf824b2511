// The recurrences of RWKV-7 (a generalised delta rule) and RWKV-6 (linear attention with decay): token by
// token (wkv.cu, wkv_single.cu, wkv_deferred.cu, wkv_few.cu) and, for long sequences with heads of 64, in
// chunks (chunkwise parallel): on matrix units (wkv7_chunk.cu, wkv6_chunk.cu) or, where kernels do not know
// their fragments, by tiles (wkv7_tiles.cu, wkv6_tiles.cu). Shapes as in ops/ops.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "ops/args.h"
#include "ops/batch.h"
#include "ops/state.h"

namespace fulmar::gpu {

// ---- token by token
// Sequences of more than `longest` rows are skipped. With `leaves` (heads of 64 only) y is not the
// recurrence's output but what the output product takes: (head_norm(it) + bonus) * g, without bonus in
// RWKV-6. multiprocessors: of the queue's device.
void wkv7(const Queue&, const Batch&, const TimeMix7&, const Projected7&, StateField wkv, Tensor y,
          int64_t longest, int multiprocessors, bool leaves = false);
void wkv6(const Queue&, const Batch&, const TimeMix6&, const Projected6&, StateField wkv, Tensor y,
          int64_t longest, int multiprocessors, bool leaves = false);

// ---- deferred state writes
// Brings the states of all layers of one slot up to the rows of its ring, in place; `states` is the slot's
// state or a copy of it.
void replay_ring(const Queue&, const State&, int64_t slot, std::byte* states);

// ---- in chunks
constexpr int kChunk = 16;  // rows of one chunk
// Pieces of at most kChunk rows that never cross a sequence's end, in order; index arrays on the device.
struct Chunks {
  int64_t count = 0;
  const int32_t* row = nullptr;    // [count], first row
  const int32_t* rows = nullptr;   // [count]
  const int32_t* begin = nullptr;  // [sequences + 1], first chunk of each sequence; none for short ones
};

size_t wkv7_chunk_workspace(int64_t chunks, int64_t n_head);  // bytes
// For p that holds raw products: what finish_project7 would do, done on the way. Of the results only v (or
// v_first) is written.
struct RawProjected7 {
  const TimeMix7* att = nullptr;  // null: p is what project7 promises
  Tensor share;                   // value residual before its bias, [rows, C]; empty in the first block
  Tensor v_first;                 // written in the first block
  Tensor agreement;               // f32 [rows, heads], for leave_heads7
};
void wkv7_chunk_prepare(const Queue&, const Chunks&, int64_t n_head, const Projected7&, const RawProjected7&,
                        void* workspace);
void wkv7_chunk_walk(const Queue&, const Batch&, const Chunks&, int64_t n_head, StateField wkv, Tensor y,
                     const void* workspace, int multiprocessors);

size_t wkv6_chunk_workspace(int64_t chunks, int64_t n_head);  // bytes
void wkv6_chunk(const Queue&, const Batch&, const Chunks&, int64_t n_head, const float* bonus,
                const Projected6&, StateField wkv, Tensor y, void* workspace, int multiprocessors);

// ---- the same by tiles (tile.h)
size_t wkv7_tiles_workspace(int64_t chunks, int64_t n_head);  // bytes
void wkv7_tiles_prepare(const Queue&, const Chunks&, int64_t n_head, const Projected7&, const RawProjected7&,
                        void* workspace);
void wkv7_tiles_walk(const Queue&, const Batch&, const Chunks&, int64_t n_head, StateField wkv, Tensor y,
                     const void* workspace);

size_t wkv6_tiles_workspace(int64_t chunks, int64_t n_head);  // bytes
void wkv6_tiles(const Queue&, const Batch&, const Chunks&, int64_t n_head, const float* bonus,
                const Projected6&, StateField wkv, Tensor y, void* workspace);

}  // namespace fulmar::gpu
