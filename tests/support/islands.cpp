#include "support/islands.h"

#include <gtest/gtest.h>

#include <random>

namespace fulmar::support {

cases::LayerShape IslandShape::layer() const {
  cases::LayerShape layer{n_head, head_size, n_ffn};
  layer.rank_w = layer.rank_a = layer.rank_mix = layer.rank_decay = rank;
  layer.rank_v = rank / 2;
  layer.rank_g = rank * 2;
  return layer;
}

CaseLayer::CaseLayer(Ops& ops, const IslandShape& shape, DType rounded_to)
    : rig_(ops), weights_(rig_, shape.dtype), shape_(shape.layer()) {
  rig_.set_rounded_to(rounded_to);
  rig_.set_tokens_below(static_cast<int32_t>(shape_.deep_vocab));
  batch_ = rig_.begin(shape.lengths, shape.n_head, shape.head_size);
}

void CaseLayer::give(int64_t rows, int64_t cols, DType dtype, double low, double high, double zeros) {
  inputs_.push_back(zeros > 0 ? rig_.sparse_tensor(rows, cols, dtype, low, high, zeros)
                              : rig_.tensor(rows, cols, dtype, low, high));
}

void CaseLayer::give_first_row_of(size_t index) {
  const Made& from = inputs_.at(index);
  inputs_.push_back(rig_.tensor_of(Doubles(from.values.begin(), from.values.begin() + from.tensor.cols), 1,
                                   from.tensor.cols, DType::f32));
}

void CaseLayer::forget(const Tensor& tensor) {
  const std::vector<std::byte> zeros(static_cast<size_t>(tensor.count()) * size_of(tensor.dtype));
  ops().write(tensor.data, zeros.data(), zeros.size());
}

void CaseLayer::finished(const Status& status) {
  if (!status.ok()) ADD_FAILURE() << status.error().text;
}

CaseLayer::Outcome CaseLayer::run(const cases::Island::Run& island, cases::Body body) {
  const std::vector<std::byte> slots = rig_.read_all_slots();
  Tensors tensors;
  for (const Made& input : inputs_) tensors.push_back(rig_.same(input).tensor);
  island(tensors, body);
  ops().synchronise();
  Outcome outcome;
  // A backend may have padded the step; the rows past the caller's mean nothing.
  const auto rows = static_cast<int64_t>(rig_.tokens().size());
  for (size_t i = 0; i < tensors.size(); i++) {
    const bool padded = tensors[i].rows == batch_.rows;
    outcome.emplace_back("tensor " + std::to_string(i),
                         rig_.read(padded ? tensors[i].slice_rows(0, rows) : tensors[i]));
  }
  const State& state = rig_.state();
  for (int64_t slot = 0; slot + 1 < state.slots; slot++) {
    const std::string of = " of slot " + std::to_string(slot);
    for (size_t i = 0; i < state.layout.fields.size(); i++) {
      const FieldSpec& field = state.layout.fields[i];
      outcome.emplace_back(std::string(field.name.view()) + of,
                           rig_.read(state.field(0, i), slot, state.layout.count(field)));
    }
  }
  rig_.write_all_slots(slots);
  return outcome;
}

void expect_equal(const CaseLayer::Outcome& got, const CaseLayer::Outcome& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++) {
    expect_close(got[i].second, want[i].second, tolerance, got[i].first);
  }
}

}  // namespace fulmar::support
