#include "gpu/device/step_input.h"

#include <gtest/gtest.h>

#include <numeric>

namespace fulmar::gpu {
namespace {

constexpr int32_t kSpareSlot = 99;
constexpr int64_t kRowsPerChunk = 16;

// A step of sequences of so many rows each, in slots 0, 1, ...
StepPlan packed(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> start{0}, slot(lengths.size());
  for (const int32_t length : lengths) start.push_back(start.back() + length);
  std::iota(slot.begin(), slot.end(), 0);
  const std::vector<int32_t> token(static_cast<size_t>(start.back()), 7);
  StepPlan plan;
  pack_step({token, start, slot, {}}, {}, kSpareSlot, kRowsPerChunk, plan);
  return plan;
}

TEST(StepInput, SinglesAreTheSequencesOfOneRowInFrontOfAllOthers) {
  EXPECT_EQ(packed({1, 1, 100, 1}).singles, 2);
  EXPECT_EQ(packed({100, 1, 1}).singles, 0);
  EXPECT_EQ(packed({3, 1}).singles, 0);
}

TEST(StepInput, PaddingOfADecodingStepIsOfSinglesToo) {
  const StepPlan plan = packed(std::vector<int32_t>(33, 1));
  EXPECT_GT(plan.rows, 33);
  EXPECT_EQ(plan.singles, plan.rows);
  EXPECT_EQ(plan.short_sequences, plan.rows);
}

TEST(StepInput, LongSequencesAreCutIntoChunks) {
  const StepPlan plan = packed({1, 100, 2});
  EXPECT_EQ(plan.short_sequences, 2);
  EXPECT_EQ(plan.longest, 100);
  EXPECT_EQ(plan.chunks, 7);
  EXPECT_EQ(plan.numbers[plan.chunk_row], 1);
  EXPECT_EQ(plan.numbers[plan.chunk_rows + 6], 4);
}

}  // namespace
}  // namespace fulmar::gpu
