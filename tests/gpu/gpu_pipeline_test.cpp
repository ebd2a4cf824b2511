// A model over two GPUs, or over two queues of one where there is no other, against one GPU.
#include "files/synthetic.h"
#include "gpu/gpu_device.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::Feed;
using support::ModelRig;
using support::placed_on;

constexpr double kTolerance = 2e-3;  // relative, of f16

SyntheticSpec spec_of(int version) {
  SyntheticSpec spec{.version = version, .n_layer = 4, .n_head = 4, .head_size = 64, .vocab = 256};
  spec.n_ffn = 1024;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = spec.rank_decay = 32;
  spec.dtype = DType::f16;
  return spec;
}

std::vector<int32_t> tokens(size_t count, int32_t seed) {
  std::vector<int32_t> list(count);
  for (size_t i = 0; i < count; i++) list[i] = (static_cast<int32_t>(i) * 37 + seed * 11) % 256;
  return list;
}

class GpuPipeline : public GpuTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const int second = list_gpus().size() > 1 ? 1 : 0;
    for (const int index : {0, 0, second}) {
      auto opened = open_test_gpu({.index = index, .half_state = true});
      ASSERT_TRUE(opened.ok()) << opened.error().text;
      devices_.push_back(std::move(opened).value());
    }
    const SyntheticSpec spec = spec_of(GetParam());
    whole_ = std::make_unique<ModelRig>(synthetic_checkpoint(spec), *devices_[0], 44);
    parts_ =
        std::make_unique<ModelRig>(synthetic_checkpoint(spec),
                                   placed_on(std::span(devices_).subspan(1), std::vector<int64_t>{1, 4}), 44);
    ASSERT_TRUE(whole_->loaded() && parts_->loaded());
  }

  std::vector<std::unique_ptr<Ops>> devices_;
  std::unique_ptr<ModelRig> whole_, parts_;
};

// Often enough that steps are replayed from graphs.
TEST_P(GpuPipeline, StepsOfEverySizeAgree) {
  for (int32_t round = 0; round < 4; round++) {
    for (const int64_t rows : {1, 4, 12, 40}) {
      std::vector<Feed> feeds;
      for (int64_t slot = 0; slot < rows; slot++)
        feeds.push_back({slot, tokens(1, static_cast<int32_t>(slot) + round)});
      const auto got = parts_->step(feeds), want = whole_->step(feeds);
      for (size_t i = 0; i < feeds.size(); i++) {
        ASSERT_LT(support::relative_error(got[i], want[i]), kTolerance) << rows << " rows, round " << round;
      }
    }
    const std::vector<Feed> mixture{{41, tokens(70, round)}, {42, tokens(5, round)}, {0, {3}}};
    const auto got = parts_->step(mixture), want = whole_->step(mixture);
    for (size_t i = 0; i < mixture.size(); i++) {
      ASSERT_LT(support::relative_error(got[i], want[i]), kTolerance) << "mixture, round " << round;
    }
  }
}

TEST_P(GpuPipeline, AStateGoesOnWhereItIsTakenTo) {
  whole_->feed(0, tokens(40, 1));
  parts_->pool().write(1, whole_->pool().read(0));
  EXPECT_TRUE(parts_->pool().read(1) == whole_->pool().read(0)) << "the same bytes";
  parts_->pool().copy(1, 2);
  whole_->pool().copy(0, 3);
  const auto want = whole_->feed(3, tokens(7, 2));
  EXPECT_LT(support::relative_error(parts_->feed(2, tokens(7, 2)), want), kTolerance);
  whole_->pool().write(4, parts_->pool().read(1));
  EXPECT_EQ(whole_->feed(4, tokens(7, 2)), want) << "there and back";
}

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

INSTANTIATE_TEST_SUITE_P(Versions, GpuPipeline, testing::Values(6, 7));

}  // namespace
}  // namespace fulmar
