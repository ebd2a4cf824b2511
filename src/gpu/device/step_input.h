// A step's index arrays as one block of numbers, ready for one copy to the device. Pure; knows no GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/batch.h"

namespace fulmar::gpu {

// Numbers that the arrays of a step of so many rows take at most: nine of them, one for each row and one
// more where they say where a sequence begins, and the padding.
constexpr int64_t most_numbers(int64_t rows) { return 9 * rows + 1024; }

// Offsets count from the block's beginning, in numbers.
struct StepPlan {
  int64_t rows = 0, sequences = 0, wanted = 0, longest = 0, chunks = 0;
  int64_t short_sequences = 0;  // of at most kMostRecurrentRows rows
  int64_t singles = 0;          // sequences of one row in front of all others
  size_t token = 0, start = 0, slot = 0, sequence_of = 0, wanted_row = 0, ring = 0;
  size_t chunk_row = 0, chunk_rows = 0, chunk_begin = 0;
  std::vector<int32_t> numbers;
};

// Pads steps of one row per sequence with rows in `spare_slot`, unless a sequence lives there. Then, if all
// rows are wanted, the padding's are, too: it is the batch sizes that graphs are recorded for. `ring`: what
// the step does with each sequence's ring, or empty.
void pack_step(const StepInput& input, std::span<const RingStep> ring, int32_t spare_slot,
               int64_t rows_per_chunk, StepPlan& plan);

}  // namespace fulmar::gpu
