// Decides how many drafted tokens each sequence feeds: pure, over rates and measured costs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draft/step_cost.h"

namespace fulmar {

// What could be drafted for a sequence.
struct DraftOffer {
  double rate = 0;        // probability that a token is right when those before it are
  int64_t most = 0;       // tokens that can be drafted
  bool by_model = false;  // each costs a step of the draft model
};

// The step without drafts, and what drafts may add to it.
struct DraftBudget {
  int64_t rows = 0;          // without drafts
  int64_t sequences = 0;     // that draw a token
  int64_t most_rows = 0;     // drafted rows that there is room for
  double draft_seconds = 0;  // of one step of the draft model
};

// Smaller gains than this share of the speed without drafts are not worth the risk.
constexpr double kLeastDraftGain = 0.03;

// Returns how many tokens of each offer the step feeds: those that maximise the expected tokens per second,
// likeliest first; all 0 where drafts do not pay. Same order and length as the offers.
std::vector<int64_t> choose_draft_lengths(std::span<const DraftOffer> offers, const DraftBudget& budget,
                                          const StepCost& cost);

}  // namespace fulmar
