#include "model/roofline.h"

#include <gtest/gtest.h>

#include "rwkv7/state.h"

namespace fulmar {
namespace {

// RWKV-7 7.2B: 32 layers of width 4096, low-rank widths 128, 128, 96, 480.
ModelConfig shapes_7b() {
  ModelConfig config{.version = 7, .n_layer = 32, .n_embd = 4096, .n_head = 64, .head_size = 64};
  config.n_ffn = 16384;
  config.vocab = 65536;
  config.dtype = DType::f16;
  const int64_t c = config.n_embd, ranks = 128 + 128 + 96 + 480;
  config.parameters =
      2 * config.vocab * c + config.n_layer * (4 * c * c + 2 * c * config.n_ffn + 2 * c * ranks);
  return config;
}

StateLayout states_of(const ModelConfig& config, DType wkv) {
  return {config.n_layer, config.n_embd, config.n_head, config.head_size, DType::f32, wkv, kShiftsAndWkv};
}

constexpr Ceilings kCard{4550, 4314, 766'000};

double decode_rate(int64_t rows, DType wkv) {
  const ModelConfig config = shapes_7b();
  const StepWork work = step_work(config, states_of(config, wkv), {rows, rows, rows}, 0.9);
  return static_cast<double>(rows) / roofline_seconds(work, kCard);
}

// Expected: the same counted by hand, from bytes and operations, for a card of these ceilings.
TEST(Roofline, DecodeOfASevenBillionModelIsWhatCountingByHandGives) {
  EXPECT_NEAR(decode_rate(1, DType::f32), 452, 5);
  EXPECT_NEAR(decode_rate(2, DType::f32), 865, 9);
  EXPECT_NEAR(decode_rate(8, DType::f32), 2'890, 30);
  EXPECT_NEAR(decode_rate(32, DType::f16), 9'760, 100);
  EXPECT_NEAR(decode_rate(128, DType::f32), 25'070, 250);
  EXPECT_NEAR(decode_rate(128, DType::f16), 31'140, 320);
  EXPECT_NEAR(decode_rate(960, DType::f16), 37'860, 380);
}

// 7.2B: a state of 32 x 1 MiB and 32 x 32 KiB of shifts, a ring's row of 32 x 14 x 4096 bytes.
TEST(Roofline, DeferredStatesAreWrittenOnceInSoManySteps) {
  const ModelConfig config = shapes_7b();
  const StateLayout layout = states_of(config, DType::f32);
  const auto traffic = [&](int64_t every, const StepRows& rows) {
    return step_work(config, layout, rows, 0.9, ring_layout({.every = every}, kKeptRow7, DType::f16))
        .state_bytes;
  };
  const double state = 32 * 1048576.0, shifts = 32 * 32768.0, row = 32 * 14 * 4096.0;
  EXPECT_DOUBLE_EQ(traffic(1, {960, 960, 960}), 960 * 2 * (state + shifts));
  EXPECT_DOUBLE_EQ(traffic(4, {960, 960, 960}), 960 * (1.25 * state + 2 * shifts + (1.5 + 0.75) * row));
  EXPECT_DOUBLE_EQ(traffic(4, {512, 1, 1}), 2 * (state + shifts));  // several rows of a sequence
}

TEST(Roofline, EachGroupOfMatricesIsBoundByWhatTakesItLonger) {
  StepWork work;
  work.matrices = {{1e9, 1}, {1, 1e12}};  // one bound by reading, one by multiplying
  EXPECT_DOUBLE_EQ(roofline_seconds(work, {.read_gbs = 10, .copy_gbs = 10, .gflops = 1000}), 0.1 + 1.0);
  work.state_bytes = 5e9;
  EXPECT_DOUBLE_EQ(roofline_seconds(work, {.read_gbs = 10, .copy_gbs = 5, .gflops = 1000}), 0.1 + 1.0 + 1.0);
}

TEST(Roofline, RowsWithoutLogitsDoNotMeetTheHead) {
  const ModelConfig config = shapes_7b();
  const StateLayout layout = states_of(config, DType::f32);
  const StepWork none = step_work(config, layout, {512, 1, 0}, 0),
                 one = step_work(config, layout, {512, 1, 1}, 0);
  EXPECT_EQ(none.logit_bytes, 0);
  EXPECT_DOUBLE_EQ(one.weight_bytes() - none.weight_bytes(), 2.0 * 65536 * 4096);
  EXPECT_DOUBLE_EQ(one.flop() - none.flop(), 2.0 * 65536 * 4096);
}

TEST(Roofline, StepsAddUp) {
  const ModelConfig config = shapes_7b();
  const StateLayout layout = states_of(config, DType::f32);
  StepWork both = step_work(config, layout, {512, 1, 0}, 0.9);
  const double once = roofline_seconds(both, kCard);
  both += step_work(config, layout, {512, 1, 0}, 0.9);
  EXPECT_DOUBLE_EQ(roofline_seconds(both, kCard), 2 * once);
}

TEST(Roofline, IsNotKnownWithoutCeilings) {
  const ModelConfig config = shapes_7b();
  EXPECT_EQ(roofline_seconds(step_work(config, states_of(config, DType::f32), {1, 1, 1}, 0), {}), 0);
}

}  // namespace
}  // namespace fulmar
