#include "draft/draft_length.h"

#include <algorithm>
#include <queue>

namespace fulmar {

namespace {

// The next token of an offer that could be added to the step.
struct Next {
  double gain = 0;  // the probability that it and all before it are right
  size_t offer = 0;
  bool operator<(const Next& other) const {
    return gain != other.gain ? gain < other.gain : offer > other.offer;
  }
};

}  // namespace

std::vector<int64_t> choose_draft_lengths(std::span<const DraftOffer> offers, const DraftBudget& budget,
                                          const StepCost& cost) {
  std::vector<int64_t> lengths(offers.size(), 0), best = lengths;
  std::priority_queue<Next> next;
  for (size_t i = 0; i < offers.size(); i++) {
    if (offers[i].most > 0) next.push({offers[i].rate, i});
  }
  const double alone = cost.of(budget.rows);
  if (alone <= 0) return best;  // no step was measured
  double tokens = static_cast<double>(budget.sequences);
  double best_speed = tokens * (1 + kLeastDraftGain) / alone;
  int64_t model_steps = 0;
  for (int64_t rows = 1; rows <= budget.most_rows && !next.empty(); rows++) {
    const Next added = next.top();
    next.pop();
    const DraftOffer& offer = offers[added.offer];
    const int64_t length = ++lengths[added.offer];
    if (length < offer.most) next.push({added.gain * offer.rate, added.offer});
    tokens += added.gain;
    if (offer.by_model) model_steps = std::max(model_steps, length);
    // Larger steps never take less time, whatever measurement noise says.
    const double seconds = std::max(cost.of(budget.rows + rows), alone) +
                           static_cast<double>(model_steps) * budget.draft_seconds;
    const double speed = tokens / seconds;
    if (speed <= best_speed) continue;
    best_speed = speed;
    best = lengths;
  }
  return best;
}

}  // namespace fulmar
