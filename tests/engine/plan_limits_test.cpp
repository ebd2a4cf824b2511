// What a row that decodes costs in rows of prompts.
#include "engine/plan_limits.h"

#include <gtest/gtest.h>

#include "support/tiny_engine.h"

namespace fulmar {
namespace {

double rows_per_row(int64_t layers, int64_t width, int64_t parameters, DType states) {
  ModelConfig config;
  config.n_layer = layers;
  config.n_embd = width;
  config.n_ffn = 4 * width;
  config.vocab = 65536;
  config.parameters = parameters;
  return prompt_rows_per_row(config, {.n_layer = layers,
                                      .n_embd = width,
                                      .n_head = width / 64,
                                      .head_size = 64,
                                      .wkv_dtype = states,
                                      .fields = kShiftsAndWkv});
}

TEST(PlanLimits, ARowThatDecodesMovesItsStateBesideItsArithmetic) {
  const double large = rows_per_row(32, 4096, 7'200'000'000, DType::f32);
  const double half = rows_per_row(32, 4096, 7'200'000'000, DType::f16);
  const double small = rows_per_row(24, 2048, 1'527'000'000, DType::f32);
  EXPECT_NEAR(large, 1.6, 0.05);
  EXPECT_NEAR(half - 1, (large - 1) / 2, 0.02);
  EXPECT_GT(small, large) << "arithmetic grows with the square of the width, states with the width";
}

TEST(PlanLimits, AreThoseOfTheModel) {
  testing::TinyEngine tiny;
  const PlanLimits limits = plan_limits(tiny.model(), 24);
  EXPECT_EQ(limits.max_rows, tiny.model().max_rows());
  EXPECT_EQ(limits.max_wanted, tiny.model().max_wanted());
  EXPECT_EQ(limits.prefill_chunk, 24);
  EXPECT_GT(limits.prompt_rows_per_row, 1);
}

TEST(PlanLimits, LongPromptsLeaveSlotsFree) {
  const PlanLimits limits{.prefill_chunk = 256};
  EXPECT_FALSE(is_long_prompt(16 * 256 + 15, limits));
  EXPECT_TRUE(is_long_prompt(17 * 256, limits));
  for (const auto& [slots, most] : {std::pair{1, 1}, {2, 1}, {8, 7}, {16, 14}, {320, 280}}) {
    EXPECT_EQ(most_long_prompts(slots), most) << slots;
  }
}

}  // namespace
}  // namespace fulmar
