// What all backends share: scratch memory of islands, slots to and from host memory, the default head, host
// sampling.
#include "ops/ops.h"

#include <algorithm>

#include "base/check.h"

namespace fulmar {

bool ring_steps(const StepInput& input, const State& state, std::vector<RingStep>& steps) {
  steps.clear();
  bool any_revocable = false;
  for (size_t s = 0; s < input.slot.size(); s++) {
    const int64_t rows = input.start[s + 1] - input.start[s];
    const bool revocable = !input.revocable.empty() && input.revocable[s] != 0 && rows > 1;
    FULMAR_CHECK(!revocable || rows <= most_revocable(state.ring), "a ring has room for what it may lose");
    any_revocable |= revocable;
    steps.push_back(ring_step(state.ring, state.cursors[input.slot[s]], rows, revocable));
  }
  return any_revocable;
}

RingCursor* Ops::cursor_of(const State& state, int64_t slot) {
  FULMAR_CHECK(slot >= 0 && slot < state.slots);
  return state.has_rings() ? state.cursors + slot : nullptr;
}

void Ops::read_slot(const State& state, int64_t slot, std::span<std::byte> out) {
  FULMAR_CHECK(out.size() == state.layout.slot_bytes());
  const RingCursor* cursor = cursor_of(state, slot);
  Scratch scratch(*this);
  const bool holds = cursor != nullptr && cursor->held > 0;
  read(out.data(), holds ? replayed(state, slot, scratch) : state.slot(slot), out.size());
}

void Ops::write_slot(const State& state, int64_t slot, std::span<const std::byte> from) {
  FULMAR_CHECK(from.size() == state.layout.slot_bytes());
  if (RingCursor* cursor = cursor_of(state, slot)) *cursor = {};
  write(state.slot(slot), from.data(), from.size());
}

void Ops::roll_back(const State& state, int64_t slot, int64_t rows) {
  RingCursor* cursor = cursor_of(state, slot);
  const auto count = static_cast<int32_t>(rows);
  FULMAR_CHECK(cursor != nullptr && count >= 0 && count <= cursor->revocable,
               "only rows that were fed as revocable are rolled back");
  if (count == 0) return;
  cursor->held -= count;
  cursor->revocable -= count;
  restore_fields(state, slot, (cursor->first + cursor->held - 1) % state.ring.rows);
}

void Ops::absorb(Tensor x, const Addend& pending) {
  const Tensor own = pending.joined(x);
  if (!own.empty()) add(x, own);
}

void Ops::read_out(const Batch& batch, const Head& head, Tensor x, Addend pending, Tensor hidden,
                   Tensor logits) {
  Scratch scratch(*this);
  const Tensor wanted = scratch.take(hidden.rows, x.cols, x.dtype);
  absorb(x, pending);
  gather_wanted(batch, x, wanted);
  norm(wanted, head.ln_out, hidden);
  linear(hidden, head.matrix, logits);
}

void Ops::sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out) {
  FULMAR_CHECK(logits.dtype == DType::f32 && rows.size() == out.size());
  std::vector<float> row(static_cast<size_t>(logits.cols));
  for (size_t i = 0; i < rows.size(); i++) {
    read(row.data(), logits.row<float>(rows[i].logits_row), row.size() * sizeof(float));
    out[i] = sample_row(row, rows[i]);
  }
}

bool Ops::begin_sample(Tensor logits, std::span<const SampleRow> rows) {
  drawn_.assign(rows.size(), {});
  sample(logits, rows, drawn_);
  return true;
}

void Ops::finish_sample(std::span<SampledToken> out) {
  FULMAR_CHECK(out.size() == drawn_.size());
  std::copy(drawn_.begin(), drawn_.end(), out.begin());
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

// Blocks have consecutive ranges of offsets; an allocation never straddles two of them.
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
