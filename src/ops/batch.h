// One step's work: packed rows of many sequences. Prefill, decode and mixtures of both are the same thing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/ring.h"

namespace fulmar {

// What the engine hands over, in host memory. Sequence s owns the rows [start[s], start[s+1]), in text order,
// and keeps its state in slot[s]. Slots of one step are distinct; every sequence has at least one row.
struct StepInput {
  std::span<const int32_t> token;   // [rows], 0 <= id < V, or -1 - i: the i-th id of `drawn`
  std::span<const int32_t> start;   // [sequences + 1], start[0] = 0, strictly increasing, last = rows
  std::span<const int32_t> slot;    // [sequences]
  std::span<const int32_t> wanted;  // rows whose logits are wanted, ascending
  // [sequences], or empty for none: 1 where all rows but the first may be rolled back (Ops::roll_back). Such
  // a sequence has at most most_revocable rows.
  std::span<const uint8_t> revocable = {};
  // Of a step that begins before the draws in front of it are known: where these put their ids
  // (Ops::drawn). A sequence whose id ends it is not fed: it is computed in the spare slot, the last one of
  // the state. Every sequence of such a step has one row.
  const void* drawn = nullptr;
};

struct State;

// What a step does with the ring of each of its sequences, whose cursors move behind its rows; `steps`
// becomes [sequences]. Whether some rows may be rolled back.
bool ring_steps(const StepInput& input, const State& state, std::vector<RingStep>& steps);

// The same in the memory of the backend that runs it, as islands and primitives see it. A backend may have
// padded it to a size it has a captured graph for; rows past the caller's use a spare slot and nobody reads
// their results.
struct Batch {
  int64_t rows = 0;
  int64_t sequences = 0;
  int64_t wanted = 0;
  int64_t longest = 0;                   // most rows of one sequence
  const int32_t* token = nullptr;        // [rows]
  const int32_t* start = nullptr;        // [sequences + 1]
  const int32_t* slot = nullptr;         // [sequences]
  const int32_t* sequence_of = nullptr;  // [rows]: which sequence a row belongs to
  const int32_t* wanted_row = nullptr;   // [wanted]
  const RingStep* ring = nullptr;        // [sequences]; null: nothing is held, every state is written
  bool revocable = false;                // some sequences have rows that may be rolled back

  bool decode_only() const { return rows == sequences; }

  // The first `count` sequences, which have a row each; the sequences behind them. Rows keep their numbers.
  Batch singles(int64_t count) const {
    Batch part = *this;
    part.rows = part.sequences = count;
    part.longest = 1;
    return part;
  }
  Batch behind_singles(int64_t count) const {
    Batch part = *this;
    part.rows -= count, part.sequences -= count;
    part.start += count, part.slot += count;
    if (part.ring != nullptr) part.ring += count;
    return part;
  }
};

}  // namespace fulmar
