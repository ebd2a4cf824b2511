// How many steps an automaton may still take until it accepts, state by state: what a count has to know of
// what it counts. Knows no grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"

namespace fulmar {

// Immutable. From some number of steps on, the states that accept after exactly n steps repeat with a period.
class Lengths {
 public:
  // `next`: by state and symbol, -1: none; `accepting`: by state. Numbers of steps up to `most` are asked
  // for; most < 0: all. Errors: those of the budget; unsupported, where more than kMaxEntries would have to
  // be kept.
  static Result<std::shared_ptr<const Lengths>> of(std::span<const int32_t> next, size_t symbols,
                                                   const std::vector<bool>& accepting, int64_t most,
                                                   Budget& budget);
  static constexpr size_t kMaxEntries = 1'000'000;

  // Whether `state` accepts after n steps for some from <= n <= to; to < 0: without end.
  bool any(int32_t state, int64_t from, int64_t to) const;
  // Beyond this many steps all that matters is their number modulo the period.
  int64_t settled() const { return settled_; }
  int64_t period() const { return period_; }

 private:
  static constexpr int32_t kNever = -1;
  size_t states_ = 0;
  int64_t settled_ = 0;
  int64_t period_ = 1;
  // By number of steps up to settled_ + period_ and state: how many more steps until the next length.
  std::vector<int32_t> more_;
};

}  // namespace fulmar
