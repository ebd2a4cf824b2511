// Which drafted tokens count, and how often a source of drafts is right. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/sampling.h"

namespace fulmar {

// The acceptance rule: drawn[i] is what the row in front of drafts[i] draws with its own key (seed and
// position), given that the drafts before it are right. A draft counts while it is what would have been
// drawn, so that the text is the one without drafts, at any temperature. Returns how many count; drawn[that]
// is the next token.
inline size_t accepted_drafts(std::span<const int32_t> drafts, std::span<const SampledToken> drawn) {
  size_t count = 0;
  while (count < drafts.size() && !drawn[count].stops && drawn[count].token == drafts[count]) count++;
  return count;
}

// The share of drafted tokens that were right where all before them were, over the last ones.
class AcceptanceRate {
 public:
  // `memory`: tokens after which an observation counts 1/e.
  explicit AcceptanceRate(double memory) : kept_(1 - 1 / memory) {}
  AcceptanceRate() : AcceptanceRate(32) {}

  // A draft of which so many tokens were right, and of which another one was wrong or not.
  void observe(int64_t right, bool wrong) {
    for (int64_t i = 0; i < right; i++) add(1);
    if (wrong) add(0);
  }
  // With few observations, near to what was expected before.
  double value(double expected) const {
    constexpr double kWeight = 4;  // of the expectation, in observations
    return (right_ + kWeight * expected) / (judged_ + kWeight);
  }

 private:
  void add(double right) {
    right_ = right_ * kept_ + right;
    judged_ = judged_ * kept_ + 1;
  }

  double kept_;
  double right_ = 0, judged_ = 0;
};

}  // namespace fulmar
