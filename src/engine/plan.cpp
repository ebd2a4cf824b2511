#include "engine/plan.h"

#include <algorithm>

namespace fulmar {

namespace {

// What a step has left to give.
struct Budget {
  int64_t rows = 0;
  int64_t prompt_rows = 0;
  int64_t wanted = 0;
};

// Feeds a prompt `fed` tokens more, out of at most `share` prompt rows and `wanted_share` wanted ones.
void feed_prompt(const PlanItem& item, int64_t share, int64_t wanted_share, int64_t& fed, Budget& left) {
  // A prompt's rows are one sequence: only those of which every output is wanted take more than one.
  const int64_t first_wanted = fed == 0 || item.every_row ? item.slots : 0;
  if (left.prompt_rows <= 0 || item.slots > left.rows || first_wanted > left.wanted) return;
  // A chunk smaller than a mixture still feeds it one token.
  int64_t take = std::min(item.to_feed - fed, std::max<int64_t>(1, share / item.slots));
  take = std::min(take, left.rows / item.slots);
  if (item.until_pause > 0) take = std::min(take, item.until_pause - fed);
  if (item.every_row) take = std::min(take, std::max<int64_t>(1, wanted_share / item.slots));
  if (take <= 0) return;
  fed += take;
  left.rows -= take * item.slots;
  left.prompt_rows -= take * item.slots;
  left.wanted -= item.every_row ? take * item.slots : first_wanted;
}

}  // namespace

std::vector<int64_t> plan_step(std::span<const PlanItem> items, const PlanLimits& limits) {
  std::vector<int64_t> feed(items.size(), 0);
  Budget left{.rows = limits.max_rows, .wanted = limits.max_wanted};
  int64_t decoding = 0;
  std::vector<size_t> prompts;
  for (size_t i = 0; i < items.size(); i++) {
    const int64_t slots = items[i].slots;
    if (items[i].to_feed == 0) continue;
    if (!items[i].decoding) prompts.push_back(i);
    if (!items[i].decoding || slots > left.rows || slots > left.wanted) continue;
    feed[i] = std::min(items[i].to_feed, left.rows / slots);
    left.rows -= feed[i] * slots;
    left.wanted -= slots;
    decoding += slots;
  }
  for (size_t i = 0; i < items.size(); i++) {
    if (!items[i].decoding || feed[i] < items[i].to_feed) continue;
    const int64_t drafts =
        std::min({items[i].drafts, left.rows / items[i].slots, left.wanted / items[i].slots});
    feed[i] += drafts;
    left.rows -= drafts * items[i].slots;
    left.wanted -= drafts * items[i].slots;
  }
  left.prompt_rows = std::min(left.rows, limits.prefill_chunk);
  if (decoding > 0) left.prompt_rows = std::min(left.prompt_rows, std::max(decoding / 2, kLeastPromptRows));
  if (prompts.size() > 1) {
    const size_t oldest = prompts.front();
    feed_prompt(items[oldest], left.prompt_rows / 2, left.wanted / 2, feed[oldest], left);
  }
  std::stable_sort(prompts.begin(), prompts.end(),
                   [&](size_t a, size_t b) { return items[a].to_feed < items[b].to_feed; });
  for (const size_t i : prompts) feed_prompt(items[i], left.prompt_rows, left.wanted, feed[i], left);
  return feed;
}

}  // namespace fulmar
