// Steps of few rows, ragged and with rows that are rolled back, go through kernels of their own: they agree
// with those that any GPU has, and replayed steps with those that are launched one kernel at a time.
#include <fmt/format.h>

#include <cmath>

#include "gpu/gpu_models.h"

namespace fulmar {
namespace {

using support::expect_same_trace;
using support::SlotScript;
using support::SlotTrace;

// Ranks that end within a piece of a product's inputs; the gate's is shared by two warps.
SyntheticSpec odd_ranks() {
  SyntheticSpec spec = two_layers(7, 3, 384, 72);
  spec.rank_a = 40;
  spec.rank_v = 24;
  spec.rank_g = 328;
  return spec;
}

struct FewRowsCase {
  DType activation;
  bool half_state;
  int64_t every;  // M
};

class GpuFewRows : public GpuTest, public testing::WithParamInterface<FewRowsCase> {
 protected:
  SlotTrace trace(const SlotScript& script, DeviceOptions options) {
    options.activation = GetParam().activation;
    options.half_state = GetParam().half_state;
    options.state_writes = {.every = GetParam().every, .revocable = 8};
    return play_on_gpu(odd_ranks(), options, script);
  }
  // At most eight rows a step, most of them.
  static SlotScript script(int64_t slots) {
    return {.seed = static_cast<uint32_t>(30 + slots),
            .steps = under_racecheck() ? 8 : 80,
            .slots = slots,
            .longest = 8,
            .most_drafted = 5};
  }
};

TEST_P(GpuFewRows, AgreeWithTheKernelsOfAnyGpu) {
  if (without_matrix_units()) GTEST_SKIP() << "those are all there are";
  const double bound = GetParam().activation == DType::bf16 ? 0.1 : 0.02;
  for (const int64_t slots : {1, 2, 4}) {
    const SlotTrace got = trace(script(slots), {}), want = trace(script(slots), {.matrix_units = false});
    ASSERT_EQ(got.logits.size(), want.logits.size());
    double squares = 0;
    for (size_t i = 0; i < want.logits.size(); i++) {
      const double error = support::relative_error(got.logits[i], want.logits[i]);
      squares += error * error / static_cast<double>(want.logits.size());
    }
    EXPECT_LT(std::sqrt(squares), bound) << slots << " slots";
    RecordProperty(fmt::format("error_{}", slots), fmt::format("{:.2e}", std::sqrt(squares)));
  }
}

TEST_P(GpuFewRows, ReplayedStepsGiveTheBitsOfLaunchedOnes) {
  for (const int64_t slots : {1, 2}) {
    expect_same_trace(trace(script(slots), {}), trace(script(slots), {.capture = false}),
                      fmt::format("{} slots", slots));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuFewRows,
                         testing::Values(FewRowsCase{DType::f16, false, 1}, FewRowsCase{DType::f16, false, 4},
                                         FewRowsCase{DType::f16, true, 1}, FewRowsCase{DType::f16, true, 3},
                                         FewRowsCase{DType::bf16, true, 4}),
                         [](const auto& made) {
                           return fmt::format("{}{}M{}", name_of(made.param.activation),
                                              made.param.half_state ? "HalfStates" : "", made.param.every);
                         });

}  // namespace
}  // namespace fulmar
