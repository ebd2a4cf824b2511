#include "engine/plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace fulmar {
namespace {

using Feeds = std::vector<int64_t>;

PlanItem decoding() { return {.to_feed = 1, .decoding = true}; }
PlanItem prompt(int64_t tokens, int64_t until_pause = 0) {
  return {.to_feed = tokens, .until_pause = until_pause};
}

TEST(Plan, EveryRunningStreamAdvancesBesideALongPrompt) {
  const std::vector<PlanItem> items = {decoding(), prompt(4000), decoding()};
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256}), (Feeds{1, 256, 1}));
}

TEST(Plan, PromptsAreServedInOrderOfArrival) {
  const std::vector<PlanItem> items = {prompt(200), prompt(200), prompt(200)};
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256}), (Feeds{200, 56, 0}));
}

TEST(Plan, AShortPromptDoesNotWaitForALongOne) {
  const PlanLimits limits{.max_rows = 512, .prefill_chunk = 256};
  EXPECT_EQ(plan_step(std::vector{prompt(2'000'000), prompt(100), prompt(60)}, limits), (Feeds{128, 68, 60}));
  EXPECT_EQ(plan_step(std::vector{prompt(2'000'000), prompt(20)}, limits), (Feeds{236, 20}))
      << "what the short one leaves is the long one's";
  EXPECT_EQ(plan_step(std::vector{prompt(2'000'000), prompt(50, 10)}, limits), (Feeds{246, 10}));
}

TEST(Plan, ShortPromptsWithoutEndDoNotStarveALongOne) {
  std::vector<PlanItem> items{prompt(10'000)};
  int64_t fed = 0;
  for (int step = 0; step < 100; step++) {  // in each one two short prompts more than the chunk holds
    items.resize(1);
    items.resize(101, prompt(200));
    const Feeds feeds = plan_step(items, {.max_rows = 512, .prefill_chunk = 256});
    items[0].to_feed -= feeds[0];
    fed += feeds[0];
    if (items[0].to_feed == 0) break;
  }
  EXPECT_EQ(fed, 10'000) << "the oldest has half of every step";
}

TEST(Plan, PromptsTakeHalfTheRowsBesideThem) {
  const PlanLimits limits{.max_rows = 4096, .prefill_chunk = 2048, .max_wanted = 4096};
  EXPECT_EQ(plan_step(std::vector{prompt(4000)}, limits), (Feeds{2048}));
  EXPECT_EQ(plan_step(std::vector{decoding(), prompt(4000)}, limits), (Feeds{1, kLeastPromptRows}));
  std::vector<PlanItem> items(1000, decoding());
  items.push_back(prompt(4000));
  EXPECT_EQ(plan_step(items, limits).back(), 500);
}

TEST(Plan, RowsOfAStepAreBounded) {
  const std::vector<PlanItem> items = {decoding(), decoding(), decoding(), prompt(9)};
  EXPECT_EQ(plan_step(items, {.max_rows = 2, .prefill_chunk = 256}), (Feeds{1, 1, 0, 0}));
  EXPECT_EQ(plan_step(items, {.max_rows = 5, .prefill_chunk = 256}), (Feeds{1, 1, 1, 2}));
}

TEST(Plan, APromptStopsWhereASnapshotIsDue) {
  const std::vector<PlanItem> items = {prompt(100, 30), prompt(5)};
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256}), (Feeds{30, 5}));
}

TEST(Plan, OutputsThatAreWantedAreBounded) {
  const PlanItem scored{.to_feed = 100, .every_row = true};
  const std::vector<PlanItem> items = {scored, decoding(), prompt(50), prompt(50)};
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256, .max_wanted = 10}),
            (Feeds{7, 1, 50, 50}));
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256, .max_wanted = 102}),
            (Feeds{99, 1, 50, 50}));
}

TEST(Plan, ATokenOfAMixtureTakesARowInEachSlot) {
  const PlanItem mixed{.to_feed = 1, .decoding = true, .slots = 3};
  const PlanItem mixed_prompt{.to_feed = 100, .slots = 3};
  EXPECT_EQ(plan_step(std::vector{mixed, decoding()}, {.max_rows = 3, .prefill_chunk = 8}), (Feeds{1, 0}));
  EXPECT_EQ(plan_step(std::vector{mixed, decoding()}, {.max_rows = 2, .prefill_chunk = 8}), (Feeds{0, 1}));
  EXPECT_EQ(plan_step(std::vector{mixed_prompt, prompt(9)}, {.max_rows = 64, .prefill_chunk = 32}),
            (Feeds{7, 9}));
  EXPECT_EQ(plan_step(std::vector{mixed_prompt}, {.max_rows = 64, .prefill_chunk = 2}), (Feeds{1}))
      << "a chunk smaller than the mixture does not stop it";
}

TEST(Plan, NothingToFeedMeansNothingToRun) {
  const std::vector<PlanItem> items = {prompt(0), {.to_feed = 0, .decoding = true}};
  const Feeds feeds = plan_step(items, {});
  EXPECT_EQ(std::accumulate(feeds.begin(), feeds.end(), int64_t{0}), 0);
}

TEST(Plan, DraftsComeBehindEverybodysOwnRows) {
  std::vector<PlanItem> items{decoding(), decoding(), decoding()};
  items[0].drafts = 7;
  items[2].drafts = 4;
  EXPECT_EQ(plan_step(items, {.max_rows = 512}), (Feeds{8, 1, 5}));
  EXPECT_EQ(plan_step(items, {.max_rows = 9}), (Feeds{7, 1, 1}));
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .max_wanted = 5}), (Feeds{3, 1, 1}));
}

TEST(Plan, TokensThatWereRolledBackAreFedAgainTogether) {
  std::vector<PlanItem> items{decoding(), decoding()};
  items[0].to_feed = 4;
  items[0].drafts = 3;
  EXPECT_EQ(plan_step(items, {.max_rows = 512}), (Feeds{7, 1}));
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .max_wanted = 2}), (Feeds{4, 1})) << "only the last is wanted";
  EXPECT_EQ(plan_step(items, {.max_rows = 3}), (Feeds{3, 0})) << "drafts wait for what comes before them";
}

}  // namespace
}  // namespace fulmar
