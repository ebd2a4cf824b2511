// How many drafted tokens are accepted, and how often a source of drafts is right. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/sampling.h"

namespace fulmar {

// Returns how many drafts are accepted; drawn[that] is the next token. drawn[i] is what the row before
// drafts[i] draws with its own key (seed and position), assuming that the drafts before it are right. A draft
// is accepted while it equals the draw, so that the text is the same as without drafts, at any temperature.
inline size_t accepted_drafts(std::span<const int32_t> drafts, std::span<const SampledToken> drawn) {
  size_t count = 0;
  while (count < drafts.size() && !drawn[count].stops && drawn[count].token == drafts[count]) count++;
  return count;
}

// Estimates the share of drafted tokens that are right when all before them are, from recent drafts.
class AcceptanceRate {
 public:
  // Starts without observations; an observation's weight falls to 1/e within `memory` tokens.
  explicit AcceptanceRate(double memory) : kept_(1 - 1 / memory) {}
  AcceptanceRate() : AcceptanceRate(32) {}

  // Records a draft of which `right` tokens were right, and whether a wrong one followed.
  void observe(int64_t right, bool wrong) {
    for (int64_t i = 0; i < right; i++) add(1);
    if (wrong) add(0);
  }
  // Returns the estimate; with few observations close to `expected`.
  double value(double expected) const {
    constexpr double kWeight = 4;  // of `expected`, in observations
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
