// A model over two GPUs, or over two queues of one where there is no other, against one GPU.
#include "gpu/gpu_whole_and_parts.h"

namespace fulmar {
namespace {

using support::placed_on;

constexpr double kTolerance = 2e-3;  // relative, of f16

class GpuPipeline : public GpuWholeAndParts, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    load(four_layers(GetParam(), 4, 256), {.half_state = true}, [](auto devices) {
      return placed_on(devices, std::vector<int64_t>{1, 4});
    });
  }
};

TEST_P(GpuPipeline, StepsOfEverySizeAgree) { expect_steps_agree({70, 5}, kTolerance); }

TEST_P(GpuPipeline, AStateGoesOnWhereItIsTakenTo) { expect_states_go_on(kTolerance); }

// Many messages through few places, the host far ahead of the devices.
TEST_P(GpuPipeline, StepsUnderWayAtOnceDoNotMix) {
  constexpr int32_t kSlots = 4;
  const int rounds = under_racecheck() ? 4 : 200;
  Model& model = parts_->model();
  std::vector<std::vector<float>> got(kSlots);
  const std::vector<int32_t> start{0, 1}, wanted{0};
  int64_t begun = 0;
  for (int round = 0; round < rounds; round++) {
    for (int32_t slot = 0; slot < kSlots; slot++) {
      if (begun++ >= kSlots) model.finish();
      const int32_t token = (7 * round + 31 * slot) % 256;
      model.begin({{&token, 1}, start, {&slot, 1}, wanted}, parts_->pool(),
                  [&list = got[static_cast<size_t>(slot)]](const StepOutputs& outputs) {
                    const Tensor logits = outputs.logits();
                    list.resize(static_cast<size_t>(logits.cols));
                    outputs.ops().read(list.data(), logits.row<float>(0), list.size() * sizeof(float));
                  });
    }
  }
  while (model.under_way() > 0) model.finish();
  for (int32_t slot = 0; slot < kSlots; slot++) {
    std::vector<float> want;
    for (int round = 0; round < rounds; round++) want = whole_->feed(slot, {(7 * round + 31 * slot) % 256});
    EXPECT_LT(support::relative_error(got[static_cast<size_t>(slot)], want), kTolerance) << "slot " << slot;
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuPipeline, testing::ValuesIn(kVersions));

}  // namespace
}  // namespace fulmar
