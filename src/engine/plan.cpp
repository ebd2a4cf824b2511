#include "engine/plan.h"

#include <algorithm>
#include <cmath>

namespace fulmar {

namespace {

// What remains of a step's limits.
struct StepBudget {
  int64_t rows = 0;
  int64_t prompt_rows = 0;
  int64_t wanted = 0;
};

// Returns what the next piece of a prompt takes of a step's limits.
StepBudget piece_of(const PlanItem& item) {
  const int64_t rows = std::min(item.to_feed, item.piece) * item.slots;
  return {rows, rows, item.every_row ? rows : item.slots};
}

// Feeds a prompt's piece, or nothing.
void feed_piece(const PlanItem& item, int64_t& fed, StepBudget& remaining) {
  const StepBudget piece = piece_of(item);
  if (fed > 0 || piece.rows > std::min(remaining.rows, remaining.prompt_rows)) return;
  if (piece.wanted > remaining.wanted) return;
  fed = piece.rows / item.slots;
  remaining.rows -= piece.rows;
  remaining.prompt_rows -= piece.rows;
  remaining.wanted -= piece.wanted;
}

// Feeds a prompt more tokens, in addition to `fed`, out of at most `share` prompt rows
// and `wanted_share` wanted ones.
void feed_prompt(const PlanItem& item, int64_t share, int64_t wanted_share, int64_t& fed,
                 StepBudget& remaining) {
  if (item.piece > 0) return feed_piece(item, fed, remaining);
  // A prompt's rows are one sequence and want one output, unless every row's is wanted.
  const int64_t first_wanted = fed == 0 || item.every_row ? item.slots : 0;
  if (remaining.prompt_rows <= 0 || item.slots > remaining.rows || first_wanted > remaining.wanted) return;
  // A chunk smaller than a mixture still feeds it one token.
  int64_t take = std::min(item.to_feed - fed, std::max<int64_t>(1, share / item.slots));
  take = std::min(take, remaining.rows / item.slots);
  if (item.until_pause > 0) take = std::min(take, item.until_pause - fed);
  if (item.every_row) take = std::min(take, std::max<int64_t>(1, wanted_share / item.slots));
  if (take <= 0) return;
  fed += take;
  remaining.rows -= take * item.slots;
  remaining.prompt_rows -= take * item.slots;
  remaining.wanted -= item.every_row ? take * item.slots : first_wanted;
}

// Feeds decoding sequences: a token of each first, then their other ready tokens, then drafts. Returns the
// number of rows of the first.
int64_t feed_decoding(std::span<const PlanItem> items, const PlanLimits& limits, std::vector<int64_t>& feed,
                      StepBudget& remaining) {
  int64_t decoding = 0;
  for (size_t i = 0; i < items.size(); i++) {
    const int64_t slots = items[i].slots;
    if (!items[i].decoding || items[i].to_feed == 0) continue;
    if (slots > remaining.rows || slots > remaining.wanted) continue;
    if (decoding > 0 && decoding + slots > limits.max_decoding) continue;
    feed[i] = 1;
    remaining.rows -= slots;
    remaining.wanted -= slots;
    decoding += slots;
  }
  for (size_t i = 0; i < items.size(); i++) {
    if (!items[i].decoding || feed[i] == 0) continue;
    const int64_t more = std::min(items[i].to_feed - 1, remaining.rows / items[i].slots);
    feed[i] += more;
    remaining.rows -= more * items[i].slots;
  }
  for (size_t i = 0; i < items.size(); i++) {
    if (!items[i].decoding || feed[i] < items[i].to_feed) continue;
    const int64_t drafts =
        std::min({items[i].drafts, remaining.rows / items[i].slots, remaining.wanted / items[i].slots});
    feed[i] += drafts;
    remaining.rows -= drafts * items[i].slots;
    remaining.wanted -= drafts * items[i].slots;
  }
  return decoding;
}

}  // namespace

void PlanTotal::add(const PlanItem& item) {
  (item.decoding ? decoding : prompt_rows) += item.to_feed * item.slots;
}

PlanLimits share_limits(const PlanLimits& limits, const PlanTotal& total, int64_t steps,
                        FunctionRef<int64_t(int64_t rows)> padded) {
  if (steps <= 1) return limits;
  PlanLimits share = limits;
  share.steps = steps;
  share.max_decoding = padded(std::max<int64_t>(1, (total.decoding + steps - 1) / steps));
  const double rows = static_cast<double>(total.prompt_rows) * static_cast<double>(kPieceRows);
  const auto piece = static_cast<int64_t>(std::sqrt(rows / static_cast<double>(steps - 1)));
  share.prefill_chunk = std::min(limits.prefill_chunk, std::max(kLeastPiece, piece));
  return share;
}

int64_t next_piece(const PlanLimits& limits, const PlanItem& item, int64_t piece, int64_t fed) {
  const int64_t rows = item.every_row ? std::min(limits.max_rows, limits.max_wanted) : limits.max_rows;
  const int64_t whole = std::max<int64_t>(1, std::min(piece, rows / 2 / item.slots));
  return whole - fed % whole;
}

int64_t prompt_rows_beside(int64_t decoding, int64_t joining, double prompt_rows_per_row) {
  const double rows = kMostStretch * static_cast<double>(decoding + joining) - static_cast<double>(decoding);
  return std::max(kLeastPromptRows, static_cast<int64_t>(rows * prompt_rows_per_row));
}

std::vector<int64_t> plan_step(std::span<const PlanItem> items, const PlanLimits& limits) {
  std::vector<int64_t> feed(items.size(), 0);
  const auto waits = [](const PlanItem& item) { return item.piece > 0 && item.to_feed > 0; };
  const auto first = std::find_if(items.begin(), items.end(), waits);
  const StepBudget kept = first != items.end() ? piece_of(*first) : StepBudget{};
  StepBudget remaining{.rows = limits.max_rows - kept.rows, .wanted = limits.max_wanted - kept.wanted};
  const int64_t decoding = feed_decoding(items, limits, feed, remaining);
  std::vector<size_t> prompts;
  for (size_t i = 0; i < items.size(); i++) {
    if (!items[i].decoding && items[i].to_feed > 0) prompts.push_back(i);
  }
  remaining.rows += kept.rows;
  remaining.wanted += kept.wanted;
  remaining.prompt_rows = std::min(remaining.rows, limits.prefill_chunk);
  if (decoding > 0) {
    int64_t joining = 0;
    for (const size_t i : prompts) joining += items[i].slots;
    remaining.prompt_rows =
        std::min(remaining.prompt_rows,
                 prompt_rows_beside(decoding, joining / limits.steps, limits.prompt_rows_per_row));
  }
  remaining.prompt_rows = std::max(remaining.prompt_rows, kept.rows);
  if (prompts.size() > 1) {
    const size_t oldest = prompts.front();
    feed_prompt(items[oldest], remaining.prompt_rows / 2, remaining.wanted / 2, feed[oldest], remaining);
  }
  std::stable_sort(prompts.begin(), prompts.end(),
                   [&](size_t a, size_t b) { return items[a].to_feed < items[b].to_feed; });
  for (const size_t i : prompts)
    feed_prompt(items[i], remaining.prompt_rows, remaining.wanted, feed[i], remaining);
  return feed;
}

}  // namespace fulmar
