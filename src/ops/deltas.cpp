#include "ops/deltas.h"

#include "ops/batch.h"

namespace fulmar {

namespace {

// Adds one row to the last range if it continues that, else as a range of its own.
void add_row(int64_t row, const SequenceDeltas& by, std::vector<DeltaRows>& ranges) {
  if (!ranges.empty()) {
    DeltaRows& last = ranges.back();
    if (last.first + last.count == row && last.by.deltas == by.deltas && last.by.scale == by.scale) {
      last.count++;
      return;
    }
  }
  ranges.push_back({row, 1, by});
}

}  // namespace

StepDeltas deltas_of(const StepInput& input) {
  StepDeltas found;
  if (input.deltas.empty()) return found;
  size_t wanted = 0;
  for (size_t s = 0; s < input.slot.size(); s++) {
    const SequenceDeltas& by = input.deltas[s];
    const bool changes = by.deltas != nullptr && by.scale != 0;
    for (int32_t row = input.start[s]; row < input.start[s + 1]; row++) {
      const bool is_wanted = wanted < input.wanted.size() && input.wanted[wanted] == row;
      if (changes) add_row(row, by, found.packed);
      if (changes && is_wanted) add_row(static_cast<int64_t>(wanted), by, found.wanted);
      wanted += is_wanted ? 1 : 0;
    }
  }
  return found;
}

}  // namespace fulmar
