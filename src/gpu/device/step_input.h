// A step's index arrays packed into one block of int32, for one host-to-device copy. Pure; knows no GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/batch.h"

namespace fulmar::gpu {

// Returns the largest size of a step's block: nine arrays of up to rows + 1 numbers, and padding.
constexpr int64_t most_numbers(int64_t rows) { return 9 * rows + 1024; }

// Offsets into `numbers`.
struct StepPlan {
  int64_t rows = 0, sequences = 0, wanted = 0, longest = 0, chunks = 0;
  int64_t short_sequences = 0;  // of at most kMostRecurrentRows rows
  int64_t singles = 0;          // leading sequences that have one row
  size_t token = 0, start = 0, slot = 0, sequence_of = 0, wanted_row = 0, ring = 0;
  size_t chunk_row = 0, chunk_rows = 0, chunk_begin = 0;
  std::vector<int32_t> numbers;
};

// Packs a step into plan.numbers. Steps of one row per sequence are padded to a batch size that graphs are
// captured for, with rows in `spare_slot` (unless a sequence lives there), whose logits are computed, too, if
// all others' are. `ring`: each sequence's ring action, or empty.
void pack_step(const StepInput& input, std::span<const RingStep> ring, int32_t spare_slot,
               int64_t rows_per_chunk, StepPlan& plan);

}  // namespace fulmar::gpu
