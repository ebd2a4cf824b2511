// The time by which ages are judged where something is erased for its age. A wall clock may jump by years;
// what has aged by a jump alone has not aged.
#pragma once

#include <algorithm>

namespace fulmar {

struct BelievedTime {
  double now = 0;     // unix seconds; 0: never set
  double credit = 0;  // seconds by which the wall clock will still be believed beyond what was seen to pass
};

// Returns the time `passed` seconds after `before`, of which the process has seen each pass. It never goes
// back. Where the wall clock is ahead (a pause between two processes, or a jump) it is followed as far as the
// credit goes, which each second that passes makes longer by one, up to `most_credit`: a clock that stays
// ahead is caught up with at twice the speed of time.
inline BelievedTime believe(const BelievedTime& before, double wall, double passed, double most_credit) {
  if (before.now == 0) return {.now = wall, .credit = most_credit};
  const double seen = before.now + std::max(passed, 0.0);
  const double credit = std::min(before.credit + std::max(passed, 0.0), most_credit);
  const double now = std::clamp(wall, seen, seen + credit);
  return {.now = now, .credit = credit - (now - seen)};
}

// Returns the credit for things that live so many seconds: a day, of short lives less, at least an hour.
inline double credit_for(double lifetime) { return std::clamp(lifetime / 24, 3600.0, 86400.0); }

}  // namespace fulmar
