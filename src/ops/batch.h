// One step's work: packed rows of many sequences. Prefill, decode and mixtures of both are the same call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/deltas.h"
#include "ops/ring.h"

namespace fulmar {

// A step as the engine passes it, in host memory. Sequence s owns the rows [start[s], start[s+1]), in text
// order, and keeps its state in slot[s]. The slots of a step are distinct; every sequence has at least one
// row.
struct StepInput {
  std::span<const int32_t> token;   // [rows], 0 <= id < V, or -1 - i: the i-th id of `drawn`
  std::span<const int32_t> start;   // [sequences + 1], start[0] = 0, strictly increasing, last = rows
  std::span<const int32_t> slot;    // [sequences]
  std::span<const int32_t> wanted;  // rows whose logits are wanted, ascending
  // [sequences], or empty for none: 1 where all rows but the first may be rolled back (Ops::roll_back). Such
  // a sequence has at most most_revocable rows.
  std::span<const uint8_t> revocable = {};
  // Set for a step that begins before the previous draws are known: the device memory that these write their
  // ids to (Ops::drawn). A sequence that such an id ends is computed in the spare slot, the last one of the
  // state, so its own is not fed. Every sequence of such a step has one row.
  const void* drawn = nullptr;
  // [sequences], or empty for none: what adapters change for each. Only where Ops::takes_deltas.
  std::span<const SequenceDeltas> deltas = {};
};

struct State;

// Computes each sequence's ring action into `steps` [sequences] and moves the ring cursors past the step's
// rows. Returns whether any row may be rolled back.
bool ring_steps(const StepInput& input, const State& state, std::vector<RingStep>& steps);

// A StepInput in the memory of the backend that runs it, as islands and primitives see it. A backend may have
// padded it to a batch size that it has a captured graph for: rows past the caller's use the spare slot, and
// their results are ignored.
struct Batch {
  int64_t rows = 0;
  int64_t sequences = 0;
  int64_t wanted = 0;
  int64_t longest = 0;                   // rows of the longest sequence
  const int32_t* token = nullptr;        // [rows]
  const int32_t* start = nullptr;        // [sequences + 1]
  const int32_t* slot = nullptr;         // [sequences]
  const int32_t* sequence_of = nullptr;  // [rows]: which sequence a row belongs to
  const int32_t* wanted_row = nullptr;   // [wanted]
  const RingStep* ring = nullptr;        // [sequences]; null: no rings, every state is written
  bool revocable = false;                // some sequences have rows that may be rolled back

  bool decode_only() const { return rows == sequences; }

  // Returns the first `count` sequences, which have one row each.
  Batch singles(int64_t count) const {
    Batch part = *this;
    part.rows = part.sequences = count;
    part.longest = 1;
    return part;
  }
  // Returns the sequences after the first `count`, which have one row each; rows keep their numbers.
  Batch behind_singles(int64_t count) const {
    Batch part = *this;
    part.rows -= count, part.sequences -= count;
    part.start += count, part.slot += count;
    if (part.ring != nullptr) part.ring += count;
    return part;
  }
};

}  // namespace fulmar
