// The clock by which things are judged old enough to be erased. A wall clock may jump by years; an age that
// is due to such a jump alone does not count.
#pragma once

#include <algorithm>

namespace fulmar {

struct BelievedTime {
  double now = 0;     // unix seconds; 0: never set
  double credit = 0;  // seconds by which the wall clock may still run ahead of measured time
};

// Returns the time believed `passed` seconds after `before`, where `passed` is what a steady clock has
// measured. The result never goes back. Where the wall clock is ahead (after a pause between two processes,
// or a jump) it is followed as far as the credit allows. Each second that passes adds one second of credit,
// up to `max_clock_lead`, so a clock that stays ahead is caught up with at twice the speed of time.
inline BelievedTime believe(const BelievedTime& before, double wall, double passed, double max_clock_lead) {
  if (before.now == 0) return {.now = wall, .credit = max_clock_lead};
  const double seen = before.now + std::max(passed, 0.0);
  const double credit = std::min(before.credit + std::max(passed, 0.0), max_clock_lead);
  const double now = std::clamp(wall, seen, seen + credit);
  return {.now = now, .credit = credit - (now - seen)};
}

// Returns the credit for things that live `lifetime` seconds: a 24th of it, from an hour to a day.
inline double credit_for(double lifetime) { return std::clamp(lifetime / 24, 3600.0, 86400.0); }

}  // namespace fulmar
