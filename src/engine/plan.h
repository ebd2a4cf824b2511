// Decides what one step runs: pure, over plain numbers; knows neither tokens nor tensors.
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
  bool decoding = false;    // a token of its answer is next, not a prompt
  int64_t drafts = 0;       // if decoding: drafted tokens that may be fed after them
  bool every_row = false;   // the output of every token is wanted, not only of the last
  int64_t slots = 1;        // a mixture feeds each token to this many slots, a row each
  int64_t piece = 0;        // of a prompt: tokens that have to be fed in one step; 0: any number
};

struct PlanLimits {
  int64_t max_rows = 512;            // rows of one step, decode and prefill together
  int64_t prefill_chunk = 256;       // prompt rows of one step
  int64_t max_wanted = 512;          // rows of one step whose output is wanted
  int64_t max_decoding = INT64_MAX;  // rows of one step that decode
  double prompt_rows_per_row = 1;    // prompt rows that take the time of one decoding row, at least 1
  int64_t steps = 1;                 // number of steps that the running rows are divided among
};

// The rows that running sequences want in all: those of decoding sequences, also of steps under way, and
// prompt tokens that no step feeds yet.
struct PlanTotal {
  int64_t decoding = 0;     // rows of decoding sequences
  int64_t prompt_rows = 0;  // tokens of prompts

  void add(const PlanItem& item);
};

// Returns the limits of one of `steps` steps that are to be under way at once, with about the same work:
// an equal share of the decoding rows, rounded up to the batch size that it is padded to (`padded`), and
// prompts in pieces. A pipeline takes k + steps - 1 turns for N tokens in k pieces, each as long as N /
// k + kPieceRows tokens. Few pieces leave stages idle at both ends (the bubble), many have overheads;
// sqrt(N * kPieceRows / (steps - 1)) tokens is fastest. Pieces below kLeastPiece make inefficient GEMMs.
constexpr int64_t kPieceRows = 128, kLeastPiece = 512;
PlanLimits share_limits(const PlanLimits& limits, const PlanTotal& total, int64_t steps,
                        FunctionRef<int64_t(int64_t rows)> padded);

// Returns the size of a prompt's next piece, after `fed` tokens: prompts are divided into pieces of `piece`
// tokens from their beginning, whatever else the steps feed. A piece takes at most half of a step, so that
// decoding rows run beside it.
int64_t next_piece(const PlanLimits& limits, const PlanItem& item, int64_t piece, int64_t fed);

// Returns the most prompt rows of a step beside `decoding` rows (at least 1), `joining` further rows being
// about to decode once their prompts are fed. The step may take kMostStretch times as long as a step of
// decoding + joining rows without prompts. So streams wait little longer than usual, and many prompts that
// arrive together are not cut into tiny chunks because the first of them already decode. In units of decoding
// rows that leaves kMostStretch * (decoding + joining) - decoding. Never fewer than kLeastPromptRows, so that
// prompts advance beside a few streams. Streams are promised at most twice the usual step; the difference to
// kMostStretch is for overheads of a step with prompts.
constexpr double kMostStretch = 1.75;
constexpr int64_t kLeastPromptRows = 256;
int64_t prompt_rows_beside(int64_t decoding, int64_t joining, double prompt_rows_per_row);

// Returns how many tokens of each item this step feeds, drafted ones last; same order and length as the
// items.
//
// Every decoding sequence gets a row first, then its other ready tokens, then drafts. Half of what is left of
// the budget is the oldest prompt's, so that it cannot starve; the rest goes to prompts by shortest remaining
// first (ties by arrival), so that a short one does not wait for a long one. What one cannot use goes to the
// next. Beside decoding rows prompts get prompt_rows_beside. The oldest prompt that is fed in pieces has room
// reserved for its piece and takes it first; others in pieces take theirs where they fit.
std::vector<int64_t> plan_step(std::span<const PlanItem> items, const PlanLimits& limits);

}  // namespace fulmar
