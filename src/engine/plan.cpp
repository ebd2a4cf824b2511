#include "engine/plan.h"

#include <algorithm>

namespace fulmar {

std::vector<int64_t> plan_step(std::span<const PlanItem> items, const PlanLimits& limits) {
  std::vector<int64_t> feed(items.size(), 0);
  int64_t rows = limits.max_rows;
  int64_t wanted = limits.max_wanted;
  int64_t decoding = 0;
  for (size_t i = 0; i < items.size(); i++) {
    const int64_t slots = items[i].slots;
    if (!items[i].decoding || items[i].to_feed == 0 || slots > rows || slots > wanted) continue;
    feed[i] = 1;
    rows -= slots;
    wanted -= slots;
    decoding += slots;
  }
  int64_t prompt_rows = std::min(rows, limits.prefill_chunk);
  if (decoding > 0) prompt_rows = std::min(prompt_rows, std::max(decoding / 2, kLeastPromptRows));
  for (size_t i = 0; i < items.size() && prompt_rows > 0 && wanted > 0; i++) {
    const int64_t slots = items[i].slots;
    if (items[i].decoding || items[i].to_feed == 0 || slots > rows || slots > wanted) continue;
    // A chunk smaller than a mixture still feeds it one token.
    int64_t take = std::min(items[i].to_feed, std::max<int64_t>(1, prompt_rows / slots));
    if (items[i].until_pause > 0) take = std::min(take, items[i].until_pause);
    if (items[i].every_row) take = std::min(take, wanted / slots);
    feed[i] = take;
    rows -= take * slots;
    prompt_rows -= take * slots;
    wanted -= (items[i].every_row ? take : 1) * slots;
  }
  return feed;
}

}  // namespace fulmar
