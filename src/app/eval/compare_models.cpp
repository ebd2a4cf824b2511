#include "app/eval/compare_models.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/state_pool.h"

namespace fulmar {

namespace {

constexpr int64_t kRowsAtOnce = 64;  // rows whose logits are held on both sides

double log_sum(const std::vector<float>& logits, float most) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - most));
  return std::log(sum) + static_cast<double>(most);
}

// Returns the ids whose logits count: those in the vocabulary. The other rows are padding,
// with whatever values training left.
std::vector<size_t> named_ids(const Tokenizer& tokenizer, int64_t vocab) {
  std::vector<size_t> ids;
  for (int32_t id = 0; id < vocab; id++) {
    const bool named = id < tokenizer.vocabulary_size() && !tokenizer.bytes(id).empty();
    if (named || tokenizer.eos() == id) ids.push_back(static_cast<size_t>(id));
  }
  return ids;
}

// A model with the state of one sequence.
class LogitsReader {
 public:
  static Result<LogitsReader> make(LoadedModel& loaded, const std::vector<size_t>& ids) {
    FULMAR_ASSIGN(StatePool pool, loaded.model->make_states(1));
    return LogitsReader(loaded, ids, std::move(pool));
  }

  void begin() { pool_.zero(0); }

  // Returns the logits of the ids after each token from `first` on.
  std::vector<std::vector<float>> read(std::span<const int32_t> tokens, size_t first) {
    const int32_t start[] = {0, static_cast<int32_t>(tokens.size())}, slot[] = {0};
    std::vector<int32_t> wanted(tokens.size() - std::min(first, tokens.size()));
    std::iota(wanted.begin(), wanted.end(), static_cast<int32_t>(first));
    const Tensor logits = loaded_.model->forward({tokens, start, slot, wanted}, pool_);
    std::vector<float> row(static_cast<size_t>(loaded_.model->config().vocab));
    std::vector<std::vector<float>> rows(wanted.size());
    for (size_t i = 0; i < rows.size(); i++) {
      loaded_.model->read(row.data(), logits.row<float>(static_cast<int64_t>(i)), row.size() * sizeof(float));
      for (const size_t id : ids_) rows[i].push_back(row[id]);
    }
    return rows;
  }

 private:
  LogitsReader(LoadedModel& loaded, const std::vector<size_t>& ids, StatePool pool)
      : loaded_(loaded), ids_(ids), pool_(std::move(pool)) {}

  LoadedModel& loaded_;
  const std::vector<size_t>& ids_;
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

Result<TextsDistance> compare_models(LoadedModel& reference, LoadedModel& other,
                                     const std::vector<ComparedText>& texts) {
  const int64_t ours = reference.model->config().vocab, theirs = other.model->config().vocab;
  if (ours != theirs) {
    return Error{ErrorKind::invalid,
                 fmt::format("the models have {} and {} tokens; wanted the same vocabulary", theirs, ours)};
  }
  const std::vector<size_t> ids = named_ids(*other.tokenizer, ours);
  FULMAR_ASSIGN(LogitsReader first, LogitsReader::make(reference, ids));
  FULMAR_ASSIGN(LogitsReader second, LogitsReader::make(other, ids));
  const auto at_once =
      static_cast<size_t>(std::min({kRowsAtOnce, reference.model->max_rows(), other.model->max_rows(),
                                    reference.model->max_wanted(), other.model->max_wanted()}));
  DistanceSums all, beginnings;
  for (const ComparedText& text : texts) {
    first.begin();
    second.begin();
    for (size_t at = 0; at < text.tokens.size(); at += at_once) {
      const auto part = std::span(text.tokens).subspan(at, std::min(at_once, text.tokens.size() - at));
      const size_t from = std::min(std::max(text.first, at) - at, part.size());
      const auto a = first.read(part, from), b = second.read(part, from);
      for (size_t i = 0; i < a.size(); i++) all.add(a[i], b[i]);
      if (!a.empty() && at + from == text.first) beginnings.add(a[0], b[0]);
    }
  }
  return TextsDistance{all.result(), beginnings.result()};
}

}  // namespace fulmar
