#include "load/ideal_schedule.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

// One row takes 1 s a step, two 1.5 s, four 2 s; prompts 10 tokens a second.
const StepTimes kTimes{{{1, 1.0}, {2, 1.5}, {4, 2.0}}, 10};

TEST(IdealSchedule, StepsBetweenMeasuredRowsAreInterpolated) {
  EXPECT_DOUBLE_EQ(decode_seconds(kTimes, 1), 1.0);
  EXPECT_DOUBLE_EQ(decode_seconds(kTimes, 3), 1.75);
  EXPECT_DOUBLE_EQ(decode_seconds(kTimes, 4), 2.0);
  EXPECT_DOUBLE_EQ(decode_seconds(kTimes, 400), 2.0);
}

TEST(IdealSchedule, AStepOfPromptsAndOtherRowsReadsTheWeightsOnce) {
  StepTimes times = kTimes;
  EXPECT_DOUBLE_EQ(step_seconds(times, 0, 20), 2);
  EXPECT_DOUBLE_EQ(step_seconds(times, 3, 20), 1.75 + 2) << "of the rate no reading is known";
  times.prefill_rows = 20;  // 2 s, of which the weights take 1
  EXPECT_DOUBLE_EQ(step_seconds(times, 0, 20), 2);
  EXPECT_DOUBLE_EQ(step_seconds(times, 0, 40), 3);
  EXPECT_DOUBLE_EQ(step_seconds(times, 3, 40), 1.75 + 2);
  times.prefill_rows = 5;  // 0.5 s: rows that decode take longer for reasons of their own
  EXPECT_DOUBLE_EQ(step_seconds(times, 0, 5), 0.5);
  EXPECT_DOUBLE_EQ(step_seconds(times, 1, 5), 1);
}

TEST(IdealSchedule, OneRequestTakesItsPromptAndItsSteps) {
  EXPECT_DOUBLE_EQ(ideal_seconds({{0, 20, 5}}, kTimes, 4), 2 + 4);
  EXPECT_DOUBLE_EQ(ideal_seconds({{7, 20, 1}}, kTimes, 4), 7 + 2)
      << "the prompt's last row gives the first token";
}

TEST(IdealSchedule, RowsThatRunTogetherShareTheirSteps) {
  // Two prompts, then two steps together and two alone.
  EXPECT_DOUBLE_EQ(ideal_seconds({{0, 10, 3}, {0, 10, 5}}, kTimes, 4), 2 + 2 * 1.5 + 2 * 1.0);
}

TEST(IdealSchedule, WhereSlotsAreShortTheLongestAnswerGoesFirst) {
  // 5 tokens first in the one slot, then 3: their order does not matter for the sum, one slot adds nothing
  // up.
  EXPECT_DOUBLE_EQ(ideal_seconds({{0, 10, 3}, {0, 10, 5}}, kTimes, 1), 2 + 4 + 2);
  // Two slots, three requests: 5 with 3, then the second 3 beside the rest of the 5.
  EXPECT_DOUBLE_EQ(ideal_seconds({{0, 0, 3}, {0, 0, 3}, {0, 0, 5}}, kTimes, 2), 4 * 1.5);
}

TEST(IdealSchedule, NobodyStartsBeforeItArrives) {
  EXPECT_DOUBLE_EQ(ideal_seconds({{0, 10, 2}, {100, 10, 2}}, kTimes, 4), 100 + 1 + 1);
}

TEST(IdealSchedule, NoRequestsTakeNoTime) { EXPECT_EQ(ideal_seconds({}, kTimes, 4), 0); }

}  // namespace
}  // namespace fulmar
