// What the planner makes of heavy loads, by step times that were measured on an H200: promises that no card
// is needed for.
#include "app/bench/planned_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/plan_limits.h"
#include "load/workload.h"

namespace fulmar {
namespace {

// One row takes 1 s a step, two 1.5 s, four 2 s; prompts 10 tokens a second.
const StepTimes kTimes{{{1, 1.0}, {2, 1.5}, {4, 2.0}}, 10};
const PlanLimits kLimits{.max_rows = 512, .prefill_chunk = 256};

TEST(PlannedSchedule, OneRequestTakesItsPromptAndItsSteps) {
  const std::vector<ScheduledRequest> requests{{7, 20, 5}};
  const PlannedSchedule schedule = planned_schedule(requests, kTimes, 4, kLimits);
  EXPECT_DOUBLE_EQ(schedule.seconds, 7 + 2 + 4);
  EXPECT_EQ(schedule.first_token, std::vector{2.0});
  EXPECT_EQ(schedule.gaps, std::vector(4, 1.0));
  EXPECT_DOUBLE_EQ(schedule.longest_step, 2);
}

TEST(PlannedSchedule, PromptsGoBesideRowsThatDecode) {
  // 20 tokens, then 10 of another one beside a row that decodes, then both together and one alone.
  const std::vector<ScheduledRequest> requests{{1, 10, 2}, {0, 20, 4}};
  const PlannedSchedule schedule = planned_schedule(requests, kTimes, 4, kLimits);
  EXPECT_DOUBLE_EQ(schedule.seconds, 2 + (1 + 1) + 1.5 + 1);
  EXPECT_EQ(schedule.first_token, (std::vector{3.0, 2.0}));
}

TEST(PlannedSchedule, WhereSlotsAreShortTheFirstToComeGoesFirst) {
  const std::vector<ScheduledRequest> requests{{0, 10, 1}, {0, 10, 3}, {0, 10, 1}};
  const PlannedSchedule schedule = planned_schedule(requests, kTimes, 1, kLimits);
  EXPECT_EQ(schedule.first_token, (std::vector{1.0, 2.0, 5.0}));
}

TEST(PlannedSchedule, APromptPausesWhereItsStateIsKept) {
  const std::vector<ScheduledRequest> requests{{0, 100, 1}, {0, 100, 1}};
  StepTimes times = kTimes;
  times.prefill_rows = 100;  // 1 s is for reading weights, once a step
  const PlannedSchedule schedule = planned_schedule(requests, times, 2, kLimits);
  EXPECT_DOUBLE_EQ(schedule.seconds, 2 * 1 + 200 * 0.09);
}

// ---- figures of an H200, SPEED.md, 2026-11-22: 7.2B with both kinds of states (M = 1), and as far as it was
// measured 1.5B

StepTimes measured(std::vector<std::pair<int64_t, double>> tokens_per_second, double prefill) {
  StepTimes times{{}, prefill, 2048};
  for (const auto& [rows, rate] : tokens_per_second)
    times.decode.emplace_back(rows, static_cast<double>(rows) / rate);
  // More rows were not measured; beyond some hundred a step's time is proportional to them.
  const auto [rows, seconds] = times.decode.back();
  times.decode.emplace_back(4 * rows, 4 * seconds);
  return times;
}

// As `serve` has them on a GPU.
PlanLimits served(int64_t layers, int64_t width, int64_t parameters, DType states) {
  ModelConfig config;
  config.n_layer = layers;
  config.n_embd = width;
  config.n_ffn = 4 * width;
  config.vocab = 65536;
  config.parameters = parameters;
  const StateLayout layout{.n_layer = layers,
                           .n_embd = width,
                           .n_head = width / 64,
                           .head_size = 64,
                           .wkv_dtype = states,
                           .fields = kShiftsAndWkv};
  return {.max_rows = 2048,
          .prefill_chunk = 1024,
          .max_wanted = 1024,
          .prompt_rows_per_row = prompt_rows_per_row(config, layout)};
}

struct Card {
  const char* name;
  StepTimes times;
  PlanLimits limits;
};

const Card kCards[] = {
    {"Large",
     measured({{1, 346.5}, {8, 1882}, {32, 6425}, {64, 10747}, {128, 17077}, {320, 21932}, {960, 24159}},
              41'000),
     served(32, 4096, 7'200'000'000, DType::f32)},
    {"LargeWithHalfStates",
     measured({{1, 349.6}, {8, 1926}, {32, 6714}, {64, 11921}, {128, 19305}, {320, 26147}, {960, 29024}},
              41'000),
     served(32, 4096, 7'200'000'000, DType::f16)},
    // Prompts by their arithmetic.
    {"Small", measured({{1, 1186}, {32, 18310}, {320, 59554}}, 150'000),
     served(24, 2048, 1'527'000'000, DType::f32)}};

std::vector<ScheduledRequest> chats() {
  std::vector<ScheduledRequest> requests;
  for (const RequestLength& length : chat_lengths(1200, 1))
    requests.push_back({0, length.prompt, length.answer});
  return requests;
}

double share_of(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

class OnCard : public ::testing::TestWithParam<Card> {};

TEST_P(OnCard, TwelveHundredChatsAtOnceTakeLittleMoreThanTheIdeal) {
  const auto& [name, times, limits] = GetParam();
  for (const int64_t slots : {320, 640, 960, 1024}) {
    const double seconds = planned_schedule(chats(), times, slots, limits).seconds;
    const double ideal = ideal_seconds(chats(), times, slots);
    RecordProperty("seconds_" + std::to_string(slots), std::to_string(seconds));
    RecordProperty("ideal_" + std::to_string(slots), std::to_string(ideal));
    EXPECT_LE(seconds, 1.08 * ideal) << slots;
  }
}

TEST_P(OnCard, ManyPromptsAtOnceHaveMostOfTheStepsBesideTheFirstAnswers) {
  const auto& [name, times, limits] = GetParam();
  for (const int64_t tokens : {16, 64, 512}) {
    const auto first = [&](int64_t answer) {
      const std::vector<ScheduledRequest> requests(320, {0, tokens, answer});
      return share_of(planned_schedule(requests, times, 320, limits).first_token, 0.99);
    };
    RecordProperty("first_token_" + std::to_string(tokens), std::to_string(first(192) / first(1)));
    EXPECT_LE(first(192), 1.6 * first(1)) << "prompts of " << tokens;
  }
}

TEST_P(OnCard, StreamsThatBeginTogetherWaitNoMoreThanTheStretch) {
  const auto& [name, times, limits] = GetParam();
  for (const int64_t tokens : {16, 64, 512}) {
    const std::vector<ScheduledRequest> requests(320, {0, tokens, 192});
    const PlannedSchedule schedule = planned_schedule(requests, times, 320, limits);
    const double p99 = share_of(schedule.gaps, 0.99);
    RecordProperty("p99_" + std::to_string(tokens), std::to_string(p99 / decode_seconds(times, 320)));
    EXPECT_LE(p99, kMostStretch * decode_seconds(times, 320)) << "prompts of " << tokens;
  }
}

INSTANTIATE_TEST_SUITE_P(H200, OnCard, ::testing::ValuesIn(kCards),
                         [](const auto& card) { return std::string(card.param.name); });

}  // namespace
}  // namespace fulmar
