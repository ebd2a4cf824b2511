// What every backend shares: temporaries of default islands, slots to and from host memory, host sampling.
#include "ops/ops.h"

#include <algorithm>

#include "base/check.h"

namespace fulmar {

void Ops::read_slot(const State& state, int64_t slot, std::span<std::byte> out) {
  const size_t bytes = state.layout.slot_bytes();
  FULMAR_CHECK(slot >= 0 && slot < state.slots && out.size() == bytes);
  read(out.data(), state.base + static_cast<size_t>(slot) * bytes, bytes);
}

void Ops::write_slot(const State& state, int64_t slot, std::span<const std::byte> from) {
  const size_t bytes = state.layout.slot_bytes();
  FULMAR_CHECK(slot >= 0 && slot < state.slots && from.size() == bytes);
  write(state.base + static_cast<size_t>(slot) * bytes, from.data(), bytes);
}

void Ops::sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out) {
  FULMAR_CHECK(logits.dtype == DType::f32 && rows.size() == out.size());
  std::vector<float> row(static_cast<size_t>(logits.cols));
  for (size_t i = 0; i < rows.size(); i++) {
    read(row.data(), logits.row<float>(rows[i].logits_row), row.size() * sizeof(float));
    out[i] = sample_row(row, rows[i]);
  }
}

size_t Ops::workspace_bytes(const StepShape& shape) const {
  const int64_t c = shape.n_embd, f = shape.n_ffn, d = shape.deep_rank;
  const int64_t deep = d > 0 ? c + f + d * d + 2 * d : 0;
  constexpr size_t kPieces = 16, kAlignment = 64;
  return static_cast<size_t>(shape.rows * (4 * c + f + shape.low_ranks + deep)) * sizeof(float) +
         kPieces * kAlignment;
}

Status Ops::reserve_scratch(size_t bytes) {
  size_t held = 0;
  for (const Buffer& block : scratch_) held = std::max(held, block.bytes());
  if (held >= bytes) return {};
  FULMAR_ASSIGN(Buffer block, allocate(bytes));
  scratch_.push_back(std::move(block));
  return {};
}

// Blocks follow one another in one range of offsets; a piece never straddles two of them.
Tensor Ops::Scratch::take(int64_t rows, int64_t cols, DType dtype) {
  constexpr size_t kAlignment = 64;
  const size_t bytes =
      (static_cast<size_t>(rows * cols) * size_of(dtype) + kAlignment - 1) / kAlignment * kAlignment;
  size_t begin = 0;
  for (const Buffer& block : ops_.scratch_) {
    const size_t end = begin + block.bytes();
    const size_t at = std::max(begin, ops_.scratch_used_);
    if (at < end && bytes <= end - at) {
      ops_.scratch_used_ = at + bytes;
      return {static_cast<std::byte*>(block.data()) + (at - begin), dtype, rows, cols, cols};
    }
    begin = end;
  }
  FULMAR_CHECK(ops_.Ops::reserve_scratch(std::max(bytes, begin) + kAlignment).ok(),
               "island temporaries are reserved when a model is loaded");
  return take(rows, cols, dtype);
}

}  // namespace fulmar
