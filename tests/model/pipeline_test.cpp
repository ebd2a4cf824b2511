// A model over several devices computes what it computes on one, number by number, and its states are the
// same bytes wherever its layers lie.
#include <gtest/gtest.h>

#include "base/check.h"
#include "cpu/cpu_backend.h"
#include "files/identify.h"
#include "files/synthetic.h"
#include "model/bind.h"
#include "ops/device.h"
#include "support/model_rig.h"
#include "support/watched_ops.h"

namespace fulmar {
namespace {

using support::cpu_devices;
using support::Devices;
using support::Feed;
using support::made_up_state;
using support::ModelRig;
using support::placed_on;
using support::random_tokens;

constexpr int64_t kLayers = 5;
constexpr int32_t kVocabulary = 96;

SyntheticSpec spec_of(int version, bool deep = false) {
  SyntheticSpec spec{
      .version = version, .n_layer = kLayers, .n_head = 2, .head_size = 32, .vocab = kVocabulary};
  spec.n_ffn = 128;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = spec.rank_decay = 8;
  if (deep) spec.deep_embed_rank = 8;
  return spec;
}

struct Form {
  const char* name;
  int version;
  bool deep;
  std::vector<int64_t> ends;  // of the stages' layers
};

const Form kForms[] = {{"Rwkv7", 7, false, {2, 5}},
                       {"Rwkv7FirstAlone", 7, false, {1, 5}},
                       {"Rwkv7EachAlone", 7, false, {1, 2, 3, 4, 5}},
                       {"Rwkv7a", 7, true, {3, 5}},
                       {"Rwkv6", 6, false, {2, 5}},
                       {"Rwkv6Three", 6, false, {1, 4, 5}}};

class Pipeline : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    const SyntheticSpec spec = spec_of(GetParam().version, GetParam().deep);
    whole_ = std::make_unique<ModelRig>(synthetic_checkpoint(spec), *one_.front(), 6);
    several_ = cpu_devices(GetParam().ends.size());
    parts_ = std::make_unique<ModelRig>(synthetic_checkpoint(spec), placed_on(several_, GetParam().ends), 6);
    ASSERT_TRUE(whole_->loaded() && parts_->loaded());
  }

  const Devices one_ = cpu_devices(1);
  Devices several_;
  std::unique_ptr<ModelRig> whole_, parts_;
};

TEST_P(Pipeline, LogitsAndStatesAreThoseOfOneDevice) {
  const std::vector<std::vector<Feed>> steps = {
      {{5, random_tokens(17, 1)}, {0, random_tokens(1, 2)}, {3, random_tokens(40, 3)}},
      {{0, {3}}, {3, {5}}, {5, {6}}},
      {{3, {9}}},
      {{0, {7}}, {3, random_tokens(16, 4)}, {5, {8}}}};
  for (const auto& feeds : steps) EXPECT_EQ(parts_->step(feeds), whole_->step(feeds));
  for (int64_t slot = 0; slot < 6; slot++) EXPECT_EQ(parts_->pool().read(slot), whole_->pool().read(slot));
}

TEST_P(Pipeline, AStateGoesOnWhereItIsTakenTo) {
  const std::vector<int32_t> tokens = random_tokens(23, 5), more = random_tokens(9, 6);
  whole_->feed(0, tokens);
  const std::vector<float> want = [&] {
    whole_->pool().copy(0, 1);
    return whole_->feed(1, more);
  }();
  ASSERT_TRUE(parts_->pool().set(2, whole_->pool().read(0)).ok());
  parts_->pool().copy(2, 4);
  EXPECT_EQ(parts_->feed(4, more), want) << "from one device to several";
  ASSERT_TRUE(whole_->pool().set(3, parts_->pool().read(2)).ok());
  EXPECT_EQ(whole_->feed(3, more), want) << "and back";
  parts_->pool().zero(2);
  EXPECT_EQ(parts_->feed(2, tokens), whole_->feed(4, tokens)) << "from nothing";
}

TEST_P(Pipeline, ATunedStateReachesEveryStage) {
  const std::vector<std::vector<float>> wkv = made_up_state(whole_->model().state_layout());
  ASSERT_TRUE(whole_->pool().set_initial(1, wkv).ok());
  ASSERT_TRUE(parts_->pool().set_initial(1, wkv).ok());
  EXPECT_EQ(parts_->pool().read(1), whole_->pool().read(1));
  EXPECT_EQ(parts_->feed(1, {1, 2, 3}), whole_->feed(1, {1, 2, 3}));
}

TEST_P(Pipeline, TheWeightsHaveTheSameName) {
  EXPECT_EQ(parts_->model().fingerprint(), whole_->model().fingerprint());
  EXPECT_EQ(parts_->model().state_layout(), whole_->model().state_layout());
}

// Steps of different slots may be under way at once; their outputs come in the order of their beginnings.
TEST_P(Pipeline, StepsUnderWayAtOnceDoNotMix) {
  Model& model = parts_->model();
  constexpr int kSlots = 4, kRounds = 12;
  std::vector<std::vector<float>> got[kSlots];
  const std::vector<int32_t> start{0, 1}, wanted{0};
  int64_t begun = 0;
  for (int round = 0; round < kRounds; round++) {
    for (int32_t slot = 0; slot < kSlots; slot++) {
      if (begun++ >= kSlots) model.finish();
      const int32_t token = (7 * round + slot) % kVocabulary;
      model.begin({{&token, 1}, start, {&slot, 1}, wanted}, parts_->pool(),
                  [&list = got[slot]](const StepOutputs& outputs) {
                    const Tensor logits = outputs.logits();
                    const auto* row = logits.row<float>(0);
                    list.emplace_back(row, row + logits.cols);
                  });
    }
  }
  while (model.under_way() > 0) model.finish();
  for (int64_t slot = 0; slot < kSlots; slot++) {
    for (int round = 0; round < kRounds; round++) {
      const auto token = static_cast<int32_t>((7 * round + slot) % kVocabulary);
      EXPECT_EQ(got[slot][static_cast<size_t>(round)], whole_->feed(slot, {token}))
          << "slot " << slot << ", round " << round;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Pipeline, testing::ValuesIn(kForms),
                         [](const auto& form) { return std::string(form.param.name); });

// Layers [0, k) and then [k, L) on one device are all layers, with nothing added up between.
TEST(Stack, PartsOfTheLayersAreTheWhole) {
  for (const Form& form : kForms) {
    const auto checkpoint = synthetic_checkpoint(spec_of(form.version, form.deep));
    const ModelConfig config = identify(*checkpoint).value();
    const std::unique_ptr<Ops> ops = make_cpu_ops({.threads = 1});
    const auto run = [&](int64_t cut) {
      Fingerprint fingerprint;
      Binder binder(*checkpoint, config, *ops, &fingerprint);
      Buffers buffers;
      const auto stack = Stack::bind(binder, buffers, 64, {0, kLayers}, [](int64_t) {}).value();
      Tensor hidden, logits;
      buffers.declare(hidden, 64, config.n_embd, DType::f32);
      buffers.declare(logits, 64, config.vocab, DType::f32);
      EXPECT_TRUE(buffers.place(*ops).ok());
      EXPECT_TRUE(ops->reserve_scratch(size_t{1} << 22).ok());
      auto pool = StatePool::make(*ops, state_layout_of(config, *ops), 2).value();
      const std::vector<int32_t> tokens = random_tokens(9, 7), start{0, 4, 9}, slot{1, 0}, wanted{3, 8};
      const Batch batch = ops->begin_step({tokens, start, slot, wanted}, pool.view());
      Stream stream = stack->stream(batch);
      stack->embed(batch, stream);
      if (cut > 0) stack->layers(batch, pool.view(), {0, cut}, stream);
      stack->layers(batch, pool.view(), {cut, kLayers}, stream);
      stack->head(batch, stream, hidden.slice_rows(0, 2), logits.slice_rows(0, 2));
      return std::pair(std::vector<float>(logits.as<float>(), logits.as<float>() + 2 * config.vocab),
                       pool.read(1));
    };
    const auto whole = run(0);
    for (int64_t cut = 1; cut < kLayers; cut++) EXPECT_TRUE(run(cut) == whole) << form.name << " at " << cut;
  }
}

// ---- what is refused

std::string refusal(std::span<const Placed> stages, const LoadOptions& options = {}) {
  const auto loaded = Model::load(synthetic_checkpoint(spec_of(7)), stages, options);
  return loaded.ok() ? std::string() : loaded.error().text;
}

TEST(PipelineErrors, StagesAreAllLayersInOrder) {
  const Devices two = cpu_devices(2);
  const auto refused = [&](LayerRange first, LayerRange second) {
    const Placed stages[] = {{two[0].get(), first}, {two[1].get(), second}};
    return refusal(stages);
  };
  EXPECT_EQ(refused({0, 2}, {2, 5}), "");
  EXPECT_EQ(refused({0, 2}, {3, 5}), "a stage holds layers [3, 5); wanted at least one, from 2 on");
  EXPECT_EQ(refused({0, 2}, {2, 2}), "a stage holds layers [2, 2); wanted at least one, from 2 on");
  EXPECT_EQ(refused({0, 2}, {2, 4}), "the stages hold 4 layers; the model has 5");
}

class SmallOps final : public CpuOps {
 public:
  SmallOps() : CpuOps({.threads = 1}) {}
  size_t memory_free() const override { return size_t{1} << 20; }
};

TEST(PipelineErrors, TooLargeIsOneErrorWithAllNumbers) {
  SmallOps one, two;
  const Placed stages[] = {{&one, {0, 2}}, {&two, {2, 5}}};
  const std::string text = refusal(stages, {.max_rows = 4096, .slots = 8});
  EXPECT_TRUE(text.starts_with("the model needs ")) << text;
  for (const char* part : {"for layers 0 to 1 (", "for layers 2 to 4 (", "8 states of", "1 MiB free"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

class HalfOps final : public CpuOps {
 public:
  HalfOps() : CpuOps({.threads = 1}) {}
  DType wkv_dtype() const override { return DType::f16; }
};

TEST(PipelineErrors, StagesKeepStatesInTheSameTypes) {
  HalfOps other;
  const Devices one = cpu_devices(1);
  const Placed stages[] = {{one[0].get(), {0, 2}}, {&other, {2, 5}}};
  EXPECT_NE(refusal(stages).find("stages of one model want the same types"), std::string::npos);
}

// A stage that fails takes all with it, and nobody is left waiting.
TEST(PipelineErrors, AFailedStageEndsTheStepsUnderWay) {
  for (const size_t broken : {0u, 1u, 2u}) {
    Devices devices = cpu_devices(3);
    devices[broken] = std::make_unique<support::WatchedOps>([steps = 2]() mutable {
      if (steps-- <= 0) throw DeviceFailure("the bus has gone");
    });
    ModelRig rig(synthetic_checkpoint(spec_of(7)), placed_on(devices, std::vector<int64_t>{1, 3, 5}), 8);
    ASSERT_TRUE(rig.loaded());
    const std::vector<int32_t> start{0, 1}, wanted{0};
    int taken = 0;
    for (int32_t slot = 0; slot < 8; slot++) {
      rig.model().begin({{&slot, 1}, start, {&slot, 1}, wanted}, rig.pool(),
                        [&](const StepOutputs&) { taken++; });
    }
    int finished = 0;
    try {
      while (rig.model().under_way() > 0) {
        rig.model().finish();
        finished++;
      }
      ADD_FAILURE() << "nothing failed";
    } catch (const DeviceFailure& failure) {
      EXPECT_STREQ(failure.what(), "the bus has gone");
    }
    EXPECT_LE(finished, 2);
    rig.model().abandon();
    EXPECT_EQ(rig.model().under_way(), 0u);
    EXPECT_LE(taken, 2);
    EXPECT_THROW(rig.pool().read(0), DeviceFailure);
  }
}

}  // namespace
}  // namespace fulmar
