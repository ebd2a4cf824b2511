#include "draft/step_cost.h"

#include <limits>

namespace fulmar {

namespace {

constexpr int64_t kMostRows = 1024;  // larger steps are not recorded
// weight of a new measurement that is shorter, longer than the estimate
constexpr double kDown = 0.5, kUp = 0.05;

}  // namespace

void StepCost::record(int64_t rows, double seconds) {
  if (rows < 1 || rows > kMostRows || !(seconds > 0)) return;
  steps_++;
  const auto index = static_cast<size_t>(rows);
  if (entries_.size() <= index) entries_.resize(index + 1);
  TimedRows& entry = entries_[index];
  if (entry.seconds == 0) {
    entry.seconds = seconds;
  } else {
    entry.seconds += (seconds < entry.seconds ? kDown : kUp) * (seconds - entry.seconds);
  }
  entry.step = steps_;
}

double StepCost::of(int64_t rows) const {
  const auto count = static_cast<int64_t>(entries_.size());
  const auto seconds_at = [&](int64_t at) { return entries_[static_cast<size_t>(at)].seconds; };
  int64_t below = rows < count ? rows : count - 1;
  while (below > 0 && seconds_at(below) == 0) below--;
  int64_t above = rows;
  while (above < count && seconds_at(above) == 0) above++;
  const bool has_below = below > 0, has_above = above < count;
  if (has_below && (below == rows || !has_above)) return seconds_at(below);
  if (!has_above) return 0;
  if (!has_below) return seconds_at(above);
  const double share = static_cast<double>(rows - below) / static_cast<double>(above - below);
  return seconds_at(below) + share * (seconds_at(above) - seconds_at(below));
}

int64_t StepCost::age(int64_t rows) const {
  const auto index = static_cast<size_t>(rows);
  const bool known = rows >= 0 && index < entries_.size() && entries_[index].seconds > 0;
  return known ? steps_ - entries_[index].step : std::numeric_limits<int64_t>::max();
}

}  // namespace fulmar
