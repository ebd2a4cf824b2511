// Decides what one step runs: pure, over plain numbers, knows neither tokens nor tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"

namespace fulmar {

// A sequence as the planner sees it, in order of arrival.
struct PlanItem {
  int64_t to_feed = 0;      // tokens ready to be fed; 0: nothing to do this step
  int64_t until_pause = 0;  // feed at most this many (a snapshot is due there); 0: no limit
  bool decoding = false;    // its tokens wait for nobody
  int64_t drafts = 0;       // of a decoding sequence: drafted tokens that may be fed behind them
  bool every_row = false;   // the model's output is wanted for each token, not only for the last
  int64_t slots = 1;        // a token of a mixture takes a row in each of its slots
  int64_t piece = 0;        // of a prompt: tokens that are fed in one step or not at all; 0: any number
};

struct PlanLimits {
  int64_t max_rows = 512;            // rows of one step, decode and prefill together
  int64_t prefill_chunk = 256;       // prompt rows of one step
  int64_t max_wanted = 512;          // rows of one step whose output is wanted
  int64_t max_decoding = INT64_MAX;  // rows of one step that decode
  double prompt_rows_per_row = 1;    // prompt rows that take as long as one that decodes, at least 1
  int64_t steps = 1;                 // that what runs is shared among
};

// What all running rows want of the next steps: rows that decode, those included that a step under way feeds,
// and what no step feeds yet of prompts.
struct PlanTotal {
  int64_t decoding = 0;     // rows of decoding sequences
  int64_t prompt_rows = 0;  // tokens of prompts

  void add(const PlanItem& item);
};

// The limits of one step among `steps` that are to be under way at once, so that each finds about as much to
// do: an equal share of what decodes, made as large as what it is padded to (`padded`), and prompts in
// pieces. N tokens in k pieces take k + steps - 1 turns of a pipeline, each as long as N / k tokens and
// kPieceRows more: so few pieces leave stages idle at both ends (the bubble), many have costs of their own,
// and pieces of sqrt(N * kPieceRows / (steps - 1)) tokens are the quickest. Fewer than kLeastPiece make poor
// products.
constexpr int64_t kPieceRows = 128, kLeastPiece = 512;
PlanLimits share_limits(const PlanLimits& limits, const PlanTotal& total, int64_t steps,
                        FunctionRef<int64_t(int64_t rows)> padded);

// The tokens of a prompt that are fed together next, `fed` of it being behind, where prompts are fed in
// pieces of `piece` tokens from their beginning: they end where the piece does, whatever else the steps feed.
// A piece takes at most half of a step, so that decoding rows go on beside it.
int64_t next_piece(const PlanLimits& limits, const PlanItem& item, int64_t piece, int64_t fed);

// Most prompt rows of a step beside so many rows that decode (at least 1), `joining` rows being about to
// decode once their prompts are fed. The step is to take at most kMostStretch times as long as one of all
// these rows without prompts: streams then wait for little more than the steps that they get used to, and
// many prompts that come at once are not fed in crumbs because the first of them decode already. Counted in
// rows that decode that leaves kMostStretch * (decoding + joining) - decoding. Never fewer than
// kLeastPromptRows, so that prompts go on beside a few streams. A wait of twice the usual step is what
// streams are promised; the rest is for what a step with prompts has besides its rows.
constexpr double kMostStretch = 1.75;
constexpr int64_t kLeastPromptRows = 256;
int64_t prompt_rows_beside(int64_t decoding, int64_t joining, double prompt_rows_per_row);

// How many tokens of each item this step feeds, drafted ones last; same order and length as the items.
//
// Every decoding sequence gets a row first, then what else it has ready, then drafts get what they want. Of
// what is left of the budget half is the oldest prompt's, which nothing can starve; the rest goes to prompts
// by shortest remaining first (ties by arrival), so that a short one does not wait for a long one. What one
// cannot use goes to the next. Beside decoding rows prompts take what prompt_rows_beside says. The oldest
// prompt that is fed in pieces has room for its piece kept free and takes it first; others of these take
// theirs where they fit.
std::vector<int64_t> plan_step(std::span<const PlanItem> items, const PlanLimits& limits);

}  // namespace fulmar
