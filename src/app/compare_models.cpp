#include "app/compare_models.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "model/state_pool.h"

namespace fulmar {

namespace {

constexpr int64_t kRowsAtOnce = 64;  // whose logits are held on both sides

double log_sum(const std::vector<float>& logits, float most) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - most));
  return std::log(sum) + static_cast<double>(most);
}

// One model with the state of one sequence.
class Reader {
 public:
  static Result<Reader> make(LoadedModel& loaded) {
    FULMAR_ASSIGN(StatePool pool, loaded.model->make_states(1));
    return Reader(loaded, std::move(pool));
  }

  void begin() { pool_.zero(0); }

  // The logits behind each token.
  std::vector<std::vector<float>> read(std::span<const int32_t> tokens) {
    const int32_t count = static_cast<int32_t>(tokens.size());
    const int32_t start[] = {0, count}, slot[] = {0};
    std::vector<int32_t> wanted(tokens.size());
    for (int32_t i = 0; i < count; i++) wanted[static_cast<size_t>(i)] = i;
    const Tensor logits = loaded_.model->forward({tokens, start, slot, wanted}, pool_);
    std::vector<std::vector<float>> rows(tokens.size(), std::vector<float>(static_cast<size_t>(logits.cols)));
    for (size_t i = 0; i < rows.size(); i++) {
      loaded_.model->read(rows[i].data(), logits.row<float>(static_cast<int64_t>(i)),
                          rows[i].size() * sizeof(float));
    }
    return rows;
  }

 private:
  Reader(LoadedModel& loaded, StatePool pool) : loaded_(loaded), pool_(std::move(pool)) {}

  LoadedModel& loaded_;
  StatePool pool_;
};

}  // namespace

void DistanceSums::add(const std::vector<float>& reference, const std::vector<float>& other) {
  const auto best = std::max_element(reference.begin(), reference.end());
  const auto others = std::max_element(other.begin(), other.end());
  const double total = log_sum(reference, *best), other_total = log_sum(other, *others);
  for (size_t i = 0; i < reference.size(); i++) {
    const auto a = static_cast<double>(reference[i]), b = static_cast<double>(other[i]);
    error += (a - b) * (a - b);
    sum += a;
    squares += a * a;
    divergence += std::exp(a - total) * ((a - total) - (b - other_total));
  }
  numbers += static_cast<int64_t>(reference.size());
  same_top += best - reference.begin() == others - other.begin() ? 1 : 0;
  positions++;
}

ModelDistance DistanceSums::result() const {
  if (positions == 0) return {};
  const auto n = static_cast<double>(numbers), count = static_cast<double>(positions);
  const double variance = squares / n - (sum / n) * (sum / n);
  return {positions, variance > 0 ? std::sqrt(error / n / variance) : 0, divergence / count,
          static_cast<double>(same_top) / count};
}

Result<ModelDistance> compare_models(LoadedModel& reference, LoadedModel& other,
                                     const std::vector<std::vector<int32_t>>& texts) {
  const int64_t ours = reference.model->config().vocab, theirs = other.model->config().vocab;
  if (ours != theirs) {
    return Error{ErrorKind::invalid,
                 fmt::format("the models have {} and {} tokens; wanted the same vocabulary", theirs, ours)};
  }
  FULMAR_ASSIGN(Reader first, Reader::make(reference));
  FULMAR_ASSIGN(Reader second, Reader::make(other));
  const auto at_once =
      static_cast<size_t>(std::min({kRowsAtOnce, reference.model->max_rows(), other.model->max_rows(),
                                    reference.model->max_wanted(), other.model->max_wanted()}));
  DistanceSums sums;
  for (const std::vector<int32_t>& text : texts) {
    first.begin();
    second.begin();
    for (size_t at = 0; at < text.size(); at += at_once) {
      const auto part = std::span(text).subspan(at, std::min(at_once, text.size() - at));
      const auto a = first.read(part), b = second.read(part);
      for (size_t i = 0; i < part.size(); i++) sums.add(a[i], b[i]);
    }
  }
  return sums.result();
}

}  // namespace fulmar
