#include "gpu/device/step_input.h"

#include <algorithm>
#include <bit>

#include "gpu/device/step_shape.h"

namespace fulmar::gpu {

namespace {

int64_t rows_with_padding(const StepInput& input, int32_t spare_slot) {
  const auto rows = static_cast<int64_t>(input.token.size());
  const bool single = input.token.size() == input.slot.size();
  if (!single || rows > kMostCapturedRows) return rows;
  if (std::find(input.slot.begin(), input.slot.end(), spare_slot) != input.slot.end()) return rows;
  return padded_rows(rows);
}

// Appends `values`, then `padding` numbers next, next + step, ...; returns the offset of the first value.
size_t append(std::vector<int32_t>& to, std::span<const int32_t> values, int64_t padding, int32_t next,
              int32_t step) {
  const size_t offset = to.size();
  to.insert(to.end(), values.begin(), values.end());
  for (int64_t i = 0; i < padding; i++, next += step) to.push_back(next);
  return offset;
}

}  // namespace

void pack_step(const StepInput& input, std::span<const RingStep> ring, int32_t spare_slot,
               int64_t rows_per_chunk, StepPlan& plan) {
  const auto rows = static_cast<int64_t>(input.token.size());
  const auto sequences = static_cast<int64_t>(input.slot.size());
  const auto wanted = static_cast<int64_t>(input.wanted.size());
  std::vector<int32_t> numbers = std::move(plan.numbers);
  numbers.clear();
  plan = {};
  plan.rows = rows_with_padding(input, spare_slot);
  const int64_t padding = plan.rows - rows;
  plan.sequences = sequences + padding;
  const int64_t wanted_padding = wanted == rows ? padding : 0;
  plan.wanted = wanted + wanted_padding;

  const auto next = static_cast<int32_t>(rows);
  plan.token = append(numbers, input.token, padding, 0, 0);
  plan.start = append(numbers, input.start, padding, next + 1, 1);
  plan.slot = append(numbers, input.slot, padding, spare_slot, 0);
  plan.wanted_row = append(numbers, input.wanted, wanted_padding, next, 1);
  plan.ring = numbers.size();
  for (const RingStep& step : ring) numbers.push_back(std::bit_cast<int32_t>(step));
  // Padding rows keep to the ring of the spare slot: less to write than its state.
  if (!ring.empty()) append(numbers, {}, padding, std::bit_cast<int32_t>(RingStep{.keeps = 1}), 0);
  plan.sequence_of = numbers.size();
  for (int64_t s = 0; s < sequences; s++) {
    const int64_t length = input.start[static_cast<size_t>(s) + 1] - input.start[static_cast<size_t>(s)];
    numbers.insert(numbers.end(), static_cast<size_t>(length), static_cast<int32_t>(s));
    plan.longest = std::max(plan.longest, length);
    plan.short_sequences += length <= kMostRecurrentRows ? 1 : 0;
    plan.singles += length == 1 && plan.singles == s ? 1 : 0;
  }
  append(numbers, {}, padding, static_cast<int32_t>(sequences), 1);
  plan.short_sequences += padding, plan.singles += padding;

  std::vector<int32_t> chunk_row, chunk_rows, chunk_begin{0};
  for (int64_t s = 0; s < sequences && plan.longest > kMostRecurrentRows; s++) {
    const int32_t begin = input.start[static_cast<size_t>(s)], end = input.start[static_cast<size_t>(s) + 1];
    for (int32_t row = begin; end - begin > kMostRecurrentRows && row < end;
         row += static_cast<int32_t>(rows_per_chunk)) {
      chunk_row.push_back(row);
      chunk_rows.push_back(std::min(end - row, static_cast<int32_t>(rows_per_chunk)));
    }
    chunk_begin.push_back(static_cast<int32_t>(chunk_row.size()));
  }
  plan.chunks = static_cast<int64_t>(chunk_row.size());
  plan.chunk_row = append(numbers, chunk_row, 0, 0, 0);
  plan.chunk_rows = append(numbers, chunk_rows, 0, 0, 0);
  plan.chunk_begin = append(numbers, chunk_begin, 0, 0, 0);
  plan.numbers = std::move(numbers);
}

}  // namespace fulmar::gpu
