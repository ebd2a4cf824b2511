// Deferred state writes: beside each slot a ring holds the rows since the state was last written (pending
// rows). A step reads the state, replays those rows on chip, and writes the state after every M-th row only.
// Rows in the ring can be rolled back by moving a cursor. Pure functions over plain data; backends replay.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace fulmar {

constexpr int64_t kMostDeferred = 16;  // M, and rows of one step that can be rolled back
constexpr int64_t kMostRingRows = 32;  // of one ring
static_assert(kMostRingRows >= kMostDeferred - 1 + kMostDeferred);

// How states are written; passed to a backend when it is opened.
struct StateWrites {
  int64_t every = 1;      // M: after every M-th row of a sequence, 1 to kMostDeferred; 1: after every step
  int64_t revocable = 0;  // most rows of one step that may be rolled back afterwards, 0 to kMostDeferred
};

// What a recurrence needs to replay a row on a head, as its block declares it: inputs [inputs, N] and, where
// `removed`, the part of the state that the row removed, [N] in f32, with which a replay sums nothing and
// gives the same bits.
struct KeptRow {
  int64_t inputs = 0;
  bool removed = false;
};

// The shape of a ring. A row stores, per layer: for each head what replays it and, where rows can be rolled
// back, the fields that are restored, as they are after it.
struct RingLayout {
  int64_t rows = 0;         // R; 0: no ring
  int64_t write_every = 1;  // M
  int64_t inputs = 0;       // as in KeptRow
  bool removed = false;
  bool revocable = false;    // rows can be rolled back
  DType dtype = DType::f32;  // of inputs and shifts: the activation type

  static constexpr size_t align(size_t bytes) { return (bytes + 15) / 16 * 16; }
  // Returns the offset, in one row's part of a head, of what the row removed: after the inputs.
  size_t removed_offset(int64_t head_size) const {
    return static_cast<size_t>(inputs * head_size) * size_of(dtype);
  }
  size_t part_bytes(int64_t head_size) const {
    return align(removed_offset(head_size) + (removed ? static_cast<size_t>(head_size) * sizeof(float) : 0));
  }
  // Returns the bytes of [heads, rows, part]: the rows that a head replays are contiguous.
  size_t wkv_bytes(int64_t n_head, int64_t head_size) const {
    return static_cast<size_t>(n_head * rows) * part_bytes(head_size);
  }

  bool operator==(const RingLayout&) const = default;
};

// Returns the ring of a model whose rows keep this; without rows where every step writes and nothing is
// rolled back.
constexpr RingLayout ring_layout(const StateWrites& writes, const KeptRow& kept, DType activation) {
  const int64_t rows = writes.every - 1 + writes.revocable;
  if (rows == 0) return {};
  return {rows, writes.every, kept.inputs, kept.removed, writes.revocable > 0, activation};
}

// The position of a slot's ring, in host memory.
struct RingCursor {
  int32_t first = 0;      // the oldest row since the state was written
  int32_t held = 0;       // rows since then
  int32_t revocable = 0;  // the last of them that can be rolled back
};

// The ring action: what a step does with one sequence's state and ring. Rows are counted from `first` on,
// pending ones before the step's own.
struct RingStep {
  uint8_t first = 0;
  uint8_t held = 0;      // pending rows to replay before the step's own
  uint8_t write_at = 0;  // if keeps: the state is written after this many of the replayed rows; 0: not at all
  // 1: the step's own rows are appended to the ring; 0: the state is written after the last
  uint8_t keeps = 0;

  bool operator==(const RingStep&) const = default;
};

// Returns the most rows of one step that can be rolled back, however many are pending.
constexpr int64_t most_revocable(const RingLayout& ring) {
  return ring.revocable ? ring.rows - (ring.write_every - 1) : 0;
}

// Returns the ring action of a sequence that feeds `rows` rows, and moves the cursor past them. States are
// written after rows whose count since the last write is a multiple of M, so an f16 state is rounded at the
// same rows however they are divided into steps. Several rows at once that are not revocable are written
// after the last.
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
