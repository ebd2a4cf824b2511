// Decides what one step runs: pure, over plain numbers, knows neither tokens nor tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fulmar {

// A sequence as the planner sees it, in order of arrival.
struct PlanItem {
  int64_t to_feed = 0;      // tokens ready to be fed; 0: nothing to do this step
  int64_t until_pause = 0;  // feed at most this many (a snapshot is due there); 0: no limit
  bool decoding = false;    // its tokens wait for nobody
  int64_t drafts = 0;       // of a decoding sequence: drafted tokens that may be fed behind them
  bool every_row = false;   // the model's output is wanted for each token, not only for the last
  int64_t slots = 1;        // a token of a mixture takes a row in each of its slots
};

struct PlanLimits {
  int64_t max_rows = 512;       // rows of one step, decode and prefill together
  int64_t prefill_chunk = 256;  // prompt rows of one step
  int64_t max_wanted = 512;     // rows of one step whose output is wanted
};

// How many tokens of each item this step feeds, drafted ones last; same order and length as the items.
//
// Every decoding sequence gets its rows first, then drafts get what they want. Of what is left of the budget
// half is the oldest prompt's, which nothing can starve; the rest goes to prompts by shortest remaining first
// (ties by arrival), so that a short one does not wait for a long one. What one cannot use goes to the next.
// Beside decoding rows prompts take half as many as there are of those, or kLeastPromptRows: a step then
// takes less than twice as long as one without prompts, and so does a running stream's wait for it.
constexpr int64_t kLeastPromptRows = 256;
std::vector<int64_t> plan_step(std::span<const PlanItem> items, const PlanLimits& limits);

}  // namespace fulmar
