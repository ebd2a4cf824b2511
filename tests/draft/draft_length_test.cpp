// How many tokens are drafted, and what that decision learns from.
#include "draft/draft_length.h"

#include <gtest/gtest.h>

#include <numeric>

#include "draft/acceptance.h"

namespace fulmar {
namespace {

StepCost cost_of(std::initializer_list<std::pair<int64_t, double>> measured) {
  StepCost cost;
  for (const auto& [rows, seconds] : measured) cost.record(rows, seconds);
  return cost;
}

std::vector<int64_t> choose(std::vector<DraftOffer> offers, const StepCost& cost, DraftBudget budget = {}) {
  if (budget.rows == 0) budget.rows = budget.sequences = static_cast<int64_t>(offers.size());
  if (budget.most_rows == 0) budget.most_rows = 100;
  return choose_draft_lengths(offers, budget, cost);
}

TEST(DraftLength, FreeRowsAreAllUsed) {
  EXPECT_EQ(choose({{.rate = 0.5, .most = 7}}, cost_of({{1, 1.0}, {8, 1.0}})), (std::vector<int64_t>{7}));
}

TEST(DraftLength, RowsThatCostAsMuchAsStepsAreNot) {
  const StepCost cost = cost_of({{1, 1.0}, {8, 8.0}});
  EXPECT_EQ(choose({{.rate = 0.9, .most = 7}}, cost), (std::vector<int64_t>{0}));
}

TEST(DraftLength, TheBestNumberIsWhereTokensASecondAreMost) {
  // 1 + 0.2 a row: with 0.7, 3 rows give 2.533 tokens in 1.6, 2 give 2.19 in 1.4, 4 give 2.773 in 1.8.
  const StepCost cost = cost_of({{1, 1.0}, {11, 3.0}});
  EXPECT_EQ(choose({{.rate = 0.7, .most = 10}}, cost), (std::vector<int64_t>{3}));
  EXPECT_EQ(choose({{.rate = 0.95, .most = 10}}, cost), (std::vector<int64_t>{10}));
  EXPECT_EQ(choose({{.rate = 0.0, .most = 10}}, cost), (std::vector<int64_t>{0}));
}

TEST(DraftLength, WhoIsRightMoreOftenGetsMoreRows) {
  const StepCost cost = cost_of({{3, 1.0}, {13, 2.0}});
  const auto lengths = choose({{.rate = 0.9, .most = 8}, {.rate = 0.05, .most = 8}, {.rate = 0.6, .most = 8}},
                              cost, {.rows = 3, .sequences = 3, .most_rows = 10});
  EXPECT_GT(lengths[0], lengths[2]);
  EXPECT_GT(lengths[2], 0);
  EXPECT_EQ(lengths[1], 0);
}

TEST(DraftLength, NothingBeforeAStepWasMeasured) {
  EXPECT_EQ(choose({{.rate = 0.99, .most = 7}}, StepCost()), (std::vector<int64_t>{0}));
}

TEST(DraftLength, KeepsToTheRoomThatThereIs) {
  const auto lengths = choose({{.rate = 0.9, .most = 8}, {.rate = 0.9, .most = 8}}, cost_of({{2, 1.0}}),
                              {.rows = 2, .sequences = 2, .most_rows = 5});
  EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), 5);
}

TEST(DraftLength, StepsOfADraftModelCount) {
  const StepCost cost = cost_of({{1, 1.0}, {8, 1.0}});
  const std::vector<DraftOffer> offers{{.rate = 0.8, .most = 7, .by_model = true}};
  EXPECT_EQ(choose(offers, cost, {.rows = 1, .sequences = 1, .draft_seconds = 0.01}),
            (std::vector<int64_t>{7}));
  const auto few = choose(offers, cost, {.rows = 1, .sequences = 1, .draft_seconds = 0.3}).front();
  EXPECT_GT(few, 0);
  EXPECT_LT(few, 7);
  EXPECT_EQ(choose(offers, cost, {.rows = 1, .sequences = 1, .draft_seconds = 1.0}),
            (std::vector<int64_t>{0}));
}

TEST(StepCost, LiesBetweenWhatWasMeasured) {
  const StepCost cost = cost_of({{2, 1.0}, {6, 2.0}});
  EXPECT_DOUBLE_EQ(cost.of(2), 1.0);
  EXPECT_DOUBLE_EQ(cost.of(3), 1.25);
  EXPECT_DOUBLE_EQ(cost.of(6), 2.0);
  EXPECT_DOUBLE_EQ(cost.of(1), 1.0);
  EXPECT_DOUBLE_EQ(cost.of(100), 2.0);
  EXPECT_DOUBLE_EQ(StepCost().of(1), 0.0);
}

TEST(StepCost, OneSlowStepIsForgottenAndOneQuickOneIsNot) {
  StepCost cost = cost_of({{1, 1.0}});
  cost.record(1, 100.0);
  EXPECT_LT(cost.of(1), 6.0);
  for (int i = 0; i < 10; i++) cost.record(1, 1.0);
  EXPECT_NEAR(cost.of(1), 1.0, 0.01);
  for (int i = 0; i < 200; i++) cost.record(1, 2.0);
  EXPECT_NEAR(cost.of(1), 2.0, 0.01) << "a machine that has become slower";
}

TEST(StepCost, ImpossibleMeasurementsAreLeftOut) {
  StepCost cost;
  cost.record(0, 1.0);
  cost.record(-3, 1.0);
  cost.record(1, 0.0);
  cost.record(1 << 30, 1.0);
  EXPECT_DOUBLE_EQ(cost.of(1), 0.0);
}

TEST(StepCost, KnowsHowOldAMeasurementIs) {
  StepCost cost = cost_of({{1, 1.0}, {2, 1.0}, {2, 1.0}});
  EXPECT_EQ(cost.age(2), 0);
  EXPECT_EQ(cost.age(1), 2);
  EXPECT_GT(cost.age(3), 1 << 30);
  EXPECT_GT(cost.age(100), 1 << 30);
}

TEST(Acceptance, ADraftCountsWhileItIsWhatWouldHaveBeenDrawn) {
  const auto drawn = [](std::initializer_list<int32_t> tokens) {
    std::vector<SampledToken> out;
    for (const int32_t token : tokens) out.push_back({.token = token});
    return out;
  };
  const std::vector<int32_t> drafts{5, 6, 7};
  EXPECT_EQ(accepted_drafts(drafts, drawn({5, 6, 7, 8})), 3u);
  EXPECT_EQ(accepted_drafts(drafts, drawn({5, 9, 7, 8})), 1u) << "what comes behind a wrong one never counts";
  EXPECT_EQ(accepted_drafts(drafts, drawn({4, 6, 7, 8})), 0u);
  EXPECT_EQ(accepted_drafts({}, drawn({4})), 0u);
  auto stopped = drawn({5, 6, 7, 8});
  stopped[1].stops = true;
  EXPECT_EQ(accepted_drafts(drafts, stopped), 1u);
}

TEST(Acceptance, TheRateFollowsWhatIsSeen) {
  AcceptanceRate rate;
  EXPECT_DOUBLE_EQ(rate.value(0.3), 0.3);
  for (int i = 0; i < 200; i++) rate.observe(3, true);
  EXPECT_NEAR(rate.value(0.3), 0.72, 0.05);
  for (int i = 0; i < 200; i++) rate.observe(0, true);
  EXPECT_LT(rate.value(0.3), 0.05);
}

}  // namespace
}  // namespace fulmar
