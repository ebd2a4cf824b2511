// For each state of an automaton the numbers of steps after which it can accept: a count needs this of the
// texts that it counts. Knows no grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"

namespace fulmar {

// Immutable. From some number n of steps on, the set of states that accept after n steps is periodic in n.
class Lengths {
 public:
  // Computes the lengths. `next`: by state and symbol, -1: none; `accepting`: by state. Only numbers of steps
  // up to `most` will be asked for; most < 0: all. Errors: those of the budget; unsupported, where more than
  // kMaxEntries would have to be kept.
  static Result<std::shared_ptr<const Lengths>> of(std::span<const int32_t> next, size_t symbols,
                                                   const std::vector<bool>& accepting, int64_t most,
                                                   Budget& budget);
  static constexpr size_t kMaxEntries = 1'000'000;

  // Returns whether `state` accepts after n steps for some from <= n <= to; to < 0: without end.
  bool any(int32_t state, int64_t from, int64_t to) const;
  // Returns the number of steps beyond which only their number modulo the period matters.
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
