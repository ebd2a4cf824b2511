// Deferred state writes: beside each slot a ring keeps what its last rows did to the recurrent state, so that
// a step reads the state, replays those rows on chip, and writes the state behind every M-th row only. Rows
// in the ring can be rolled back by moving a cursor. Pure functions over plain data; replaying is the
// backends'.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace fulmar {

constexpr int64_t kMostDeferred = 16;  // M, and rows of one step that can be rolled back
constexpr int64_t kMostRingRows = 32;  // of one ring
static_assert(kMostRingRows >= kMostDeferred - 1 + kMostDeferred);

// How states are written, as a backend is told when it is opened.
struct StateWrites {
  int64_t every = 1;      // M: behind every M-th row of a sequence, 1 to kMostDeferred; 1: behind every step
  int64_t revocable = 0;  // most rows of one step that may be rolled back afterwards, 0 to kMostDeferred
};

// The shape of a ring. A row leaves in it, per layer: for each head its inputs [inputs, N] and, of RWKV-7,
// S·(-kk) [N] in f32, the part of the state that the row removed; with it replaying adds nothing up and gives
// the same bits. Where rows can be rolled back also the two vectors that token shifts carry on, [C] each.
struct RingLayout {
  int64_t rows = 0;          // R; 0: no ring
  int64_t write_every = 1;   // M
  int64_t inputs = 0;        // 5 of RWKV-7: k, v, u, kk, alpha; 3 of RWKV-6: k, v, u
  bool removed = false;      // of RWKV-7
  bool revocable = false;    // rows can be rolled back
  DType dtype = DType::f32;  // of inputs and carried vectors: the activation type

  static constexpr size_t align(size_t bytes) { return (bytes + 15) / 16 * 16; }
  // One row's part of a head of so many channels: inputs, then what was removed.
  size_t removed_offset(int64_t head_size) const {
    return static_cast<size_t>(inputs * head_size) * size_of(dtype);
  }
  size_t part_bytes(int64_t head_size) const {
    return align(removed_offset(head_size) + (removed ? static_cast<size_t>(head_size) * sizeof(float) : 0));
  }
  // [heads, rows, part], so that what a block replays lies together.
  size_t wkv_bytes(int64_t n_head, int64_t head_size) const {
    return static_cast<size_t>(n_head * rows) * part_bytes(head_size);
  }
  // [rows, C] of one token shift; nothing where rows cannot be taken back.
  size_t shift_row_bytes(int64_t n_embd) const { return align(static_cast<size_t>(n_embd) * size_of(dtype)); }
  size_t shift_bytes(int64_t n_embd) const {
    return revocable ? static_cast<size_t>(rows) * shift_row_bytes(n_embd) : 0;
  }

  bool operator==(const RingLayout&) const = default;
};

// The ring of a model of this version; without rows where every step writes and nothing is rolled back.
constexpr RingLayout ring_layout(const StateWrites& writes, int version, DType activation) {
  const int64_t rows = writes.every - 1 + writes.revocable;
  if (rows == 0) return {};
  return {rows, writes.every, version == 7 ? 5 : 3, version == 7, writes.revocable > 0, activation};
}

// Where a slot's ring stands, in host memory.
struct RingCursor {
  int32_t first = 0;      // the oldest row since the state was written
  int32_t held = 0;       // rows since then
  int32_t revocable = 0;  // the last of them that can be rolled back
};

// What a step does with one sequence's state and ring, `held + own rows` being counted from `first` on.
struct RingStep {
  uint8_t first = 0;
  uint8_t held = 0;      // rows to replay in front of the step's own
  uint8_t write_at = 0;  // keeps: the state is written behind so many of those replayed; 0: not at all
  uint8_t keeps = 0;     // 1: the step's own rows go into the ring; 0: the state is written behind the last

  bool operator==(const RingStep&) const = default;
};

// Most rows of one step that can be rolled back, whatever is held.
constexpr int64_t most_revocable(const RingLayout& ring) {
  return ring.revocable ? ring.rows - (ring.write_every - 1) : 0;
}

// The step of a sequence that feeds so many rows; moves the cursor behind them. States are written behind
// rows whose count since the last write is a multiple of M, by which a half state is rounded at the same rows
// whatever else a step does. Several rows at once that are not to be rolled back are written behind the last.
inline RingStep ring_step(const RingLayout& ring, RingCursor& cursor, int64_t rows, bool revocable) {
  const auto count = static_cast<int32_t>(rows), every = static_cast<int32_t>(ring.write_every);
  const int32_t total = cursor.held + count;
  const auto to_byte = [](int32_t number) { return static_cast<uint8_t>(number); };
  RingStep step{to_byte(cursor.first), to_byte(cursor.held), 0, 1};
  const int32_t staying = revocable ? cursor.held : total;  // rows that stay
  const int32_t write_at = staying / every * every;
  if (!revocable && (count > 1 || write_at == total)) {
    step.keeps = 0;
    cursor = {};
    return step;
  }
  step.write_at = to_byte(write_at);
  cursor.first = (cursor.first + write_at) % static_cast<int32_t>(ring.rows);
  cursor.held = total - write_at;
  cursor.revocable = revocable ? count - 1 : 0;
  return step;
}

}  // namespace fulmar
