#include "tune/trained_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ops/vjp.h"

namespace fulmar {
namespace {

// Rows whose logits are in memory at a time: at a vocabulary of 65,536 two f32 matrices of 64 MB.
constexpr int64_t kHeadRows = 256;

template <class Number>
Parameter<Number>& parameter_of(ModelParameters<Number>& parameters, const std::string& name) {
  Parameter<Number>* found = parameters.find(name);
  FULMAR_CHECK(found != nullptr, "a checked model has all of its tensors");
  return *found;
}

// Replaces logits by the gradient of -log softmax at the targets, divided by `count`; returns the sum of
// those.
template <class Number>
double cross_entropy(Matrix<Number>& logits, std::span<const int32_t> targets, double count) {
  double total = 0;
  for (int64_t t = 0; t < logits.rows; t++) {
    Number* row = logits.row(t);
    const Number most = *std::max_element(row, row + logits.cols);
    double sum = 0;
    for (int64_t i = 0; i < logits.cols; i++) sum += std::exp(static_cast<double>(row[i] - most));
    const double log_sum = std::log(sum) + static_cast<double>(most);
    const int32_t target = targets[static_cast<size_t>(t)];
    total += log_sum - static_cast<double>(row[target]);
    for (int64_t i = 0; i < logits.cols; i++) {
      const double share = std::exp(static_cast<double>(row[i]) - log_sum) - (i == target ? 1 : 0);
      row[i] = static_cast<Number>(share / count);
    }
  }
  return total;
}

// Adds each sequence's row of `rows` to the only row of what they all begin with, where that is trained.
template <class Number>
void add_rows(const Matrix<Number>& rows, Parameter<Number>& beginning) {
  if (!beginning.trained()) return;
  for (int64_t s = 0; s < rows.rows; s++) {
    for (int64_t i = 0; i < rows.cols; i++) beginning.gradient.values[static_cast<size_t>(i)] += rows(s, i);
  }
}

}  // namespace

int64_t counted_targets(const TuneBatch& batch) {
  return std::ranges::count_if(batch.targets, [](int32_t target) { return target >= 0; });
}

template <class Number>
TrainedModel<Number>::TrainedModel(ModelParameters<Number>& parameters)
    : parameters_(parameters),
      embedding_(parameter_of(parameters, "emb.weight")),
      ln0_(bind_norm(parameters, "blocks.0.ln0")),
      ln_out_(bind_norm(parameters, "ln_out")),
      head_(bind_linear(parameters, "head")) {
  for (int64_t l = 0; l < parameters.config.n_layer; l++)
    blocks_.push_back(make_trained_block(parameters, l));
}

template <class Number>
Matrix<Number> TrainedModel<Number>::rows_of_tokens(const TuneBatch& batch) const {
  Matrix<Number> rows(static_cast<int64_t>(batch.tokens.size()), embedding_.value.cols);
  for (int64_t t = 0; t < rows.rows; t++) {
    std::copy_n(embedding_.value.row(batch.tokens[static_cast<size_t>(t)]), rows.cols, rows.row(t));
  }
  return rows;
}

template <class Number>
Carry<Number> TrainedModel<Number>::first_carry(int64_t layer, int64_t sequences) const {
  const ModelConfig& config = parameters_.config;
  Carry<Number> carry(sequences, config.n_head, config.head_size);
  const auto repeat = [&](const std::string& name, Matrix<Number>& to) {
    const Matrix<Number>& from = parameter_of(parameters_, fmt::format("blocks.{}.{}", layer, name)).value;
    for (int64_t s = 0; s < sequences; s++) std::ranges::copy(from.values, to.row(s));
  };
  repeat("att.time_state", carry.wkv);
  repeat("att.shift0", carry.att_shift);
  repeat("ffn.shift0", carry.ffn_shift);
  return carry;
}

template <class Number>
void TrainedModel<Number>::add_carry_gradient(int64_t layer, const Carry<Number>& dcarry) {
  const std::string block = fmt::format("blocks.{}.", layer);
  add_rows(dcarry.wkv, parameter_of(parameters_, block + "att.time_state"));
  add_rows(dcarry.att_shift, parameter_of(parameters_, block + "att.shift0"));
  add_rows(dcarry.ffn_shift, parameter_of(parameters_, block + "ffn.shift0"));
}

template <class Number>
typename TrainedModel<Number>::Streams TrainedModel<Number>::forward(const TuneBatch& batch) {
  FULMAR_CHECK(batch.targets.size() == batch.tokens.size() &&
               batch.bounds.back() == static_cast<int64_t>(batch.tokens.size()));
  Streams streams;
  Matrix<Number> x = rows_of_tokens(batch);
  if (ln0_.weight != nullptr) x = group_norm(kLayerNorm, x, ln0_);
  streams.layers.push_back(std::move(x));
  for (size_t l = 0; l < blocks_.size(); l++) {
    Carry<Number> carry = first_carry(static_cast<int64_t>(l), sequence_count(batch.bounds));
    streams.layers.push_back(
        blocks_[l]->forward(batch.bounds, streams.layers.back(), streams.v_first, carry));
    blocks_[l]->forget();
  }
  return streams;
}

template <class Number>
double TrainedModel<Number>::read_out(const TuneBatch& batch, const Matrix<Number>& x, Matrix<Number>* dx) {
  std::vector<int64_t> counted;
  for (int64_t t = 0; t < x.rows; t++) {
    if (batch.targets[static_cast<size_t>(t)] >= 0) counted.push_back(t);
  }
  FULMAR_CHECK(!counted.empty());
  const auto count = static_cast<double>(counted.size());
  double total = 0;
  for (size_t begin = 0; begin < counted.size(); begin += kHeadRows) {
    const auto rows = std::span(counted).subspan(begin, std::min<size_t>(kHeadRows, counted.size() - begin));
    Matrix<Number> some(static_cast<int64_t>(rows.size()), x.cols);
    std::vector<int32_t> targets;
    for (size_t i = 0; i < rows.size(); i++) {
      std::copy_n(x.row(rows[i]), x.cols, some.row(static_cast<int64_t>(i)));
      targets.push_back(batch.targets[static_cast<size_t>(rows[i])]);
    }
    const Matrix<Number> normed = group_norm(kLayerNorm, some, ln_out_);
    Matrix<Number> logits = linear(normed, head_);
    total += cross_entropy(logits, targets, count);
    if (dx == nullptr) continue;
    const Matrix<Number> dsome = group_norm_vjp(kLayerNorm, linear_vjp(logits, normed, head_), some, ln_out_);
    for (size_t i = 0; i < rows.size(); i++) {
      std::copy_n(dsome.row(static_cast<int64_t>(i)), x.cols, dx->row(rows[i]));
    }
  }
  return total / count;
}

template <class Number>
void TrainedModel<Number>::embed_backward(const TuneBatch& batch, Matrix<Number> dx) {
  if (ln0_.weight != nullptr) dx = group_norm_vjp(kLayerNorm, dx, rows_of_tokens(batch), ln0_);
  if (!embedding_.trained()) return;
  for (int64_t t = 0; t < dx.rows; t++) {
    Number* row = embedding_.gradient.row(batch.tokens[static_cast<size_t>(t)]);
    for (int64_t i = 0; i < dx.cols; i++) row[i] += dx(t, i);
  }
}

template <class Number>
double TrainedModel<Number>::loss(const TuneBatch& batch) {
  return read_out(batch, forward(batch).layers.back(), nullptr);
}

template <class Number>
double TrainedModel<Number>::loss_and_gradients(const TuneBatch& batch) {
  Streams streams = forward(batch);
  const Matrix<Number>& last = streams.layers.back();
  Matrix<Number> dx(last.rows, last.cols), dv_first(last.rows, last.cols);
  const double loss = read_out(batch, last, &dx);
  for (size_t l = blocks_.size(); l-- > 0;) {
    const int64_t sequences = sequence_count(batch.bounds);
    Carry<Number> carry = first_carry(static_cast<int64_t>(l), sequences);
    blocks_[l]->forward(batch.bounds, streams.layers[l], streams.v_first, carry);
    Carry<Number> dcarry(sequences, parameters_.config.n_head, parameters_.config.head_size);
    dx = blocks_[l]->backward(batch.bounds, dx, dv_first, dcarry);
    blocks_[l]->forget();
    add_carry_gradient(static_cast<int64_t>(l), dcarry);
    streams.layers.pop_back();
  }
  embed_backward(batch, std::move(dx));
  return loss;
}

template class TrainedModel<float>;
template class TrainedModel<double>;

}  // namespace fulmar
