// A model whose layers several ranks share computes what one device computes, but for the order of its sums,
// and its states are those of one device.
#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "files/identify.h"
#include "files/quantised.h"
#include "model/placement.h"
#include "model/slice.h"
#include "ops/device.h"
#include "ops/survey.h"
#include "support/model_rig.h"
#include "support/watched_ops.h"

namespace fulmar {
namespace {

using support::cpu_devices;
using support::Devices;
using support::Feed;
using support::made_up_state;
using support::max_difference;
using support::ModelRig;
using support::random_tokens;
using support::relative_error;
using support::sliced_on;

constexpr double kTolerance = 1e-5;  // relative: sums in another order, in f32
constexpr int64_t kLayers = 4;
constexpr int32_t kVocabulary = 100;  // no multiple of eight times a number of ranks

struct Form {
  const char* name;
  int version;
  bool deep;
  std::vector<int64_t> ends;  // of the stages' layers
  int64_t slices;
};

SyntheticSpec spec_of(const Form& form) {
  SyntheticSpec spec{
      .version = form.version, .n_layer = kLayers, .n_head = 6, .head_size = 32, .vocab = kVocabulary};
  spec.n_ffn = 384;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = spec.rank_decay = 8;
  if (form.deep) spec.deep_embed_rank = 8;
  return spec;
}

const Form kForms[] = {
    {"Rwkv7By2", 7, false, {kLayers}, 2},        {"Rwkv7By3", 7, false, {kLayers}, 3},
    {"Rwkv7By6", 7, false, {kLayers}, 6},        {"Rwkv7aBy2", 7, true, {kLayers}, 2},
    {"Rwkv6By2", 6, false, {kLayers}, 2},        {"Rwkv6By3", 6, false, {kLayers}, 3},
    {"Rwkv7By2And2", 7, false, {1, kLayers}, 2}, {"Rwkv6By2And2", 6, false, {3, kLayers}, 2}};

class Slices : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    const Form& form = GetParam();
    whole_ = std::make_unique<ModelRig>(synthetic_checkpoint(spec_of(form)), *one_.front(), 6);
    several_ = cpu_devices(form.ends.size() * static_cast<size_t>(form.slices));
    parts_ = std::make_unique<ModelRig>(synthetic_checkpoint(spec_of(form)),
                                        sliced_on(several_, form.ends, form.slices), 6);
    ASSERT_TRUE(whole_->loaded() && parts_->loaded());
  }
  void expect_alike(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++)
      EXPECT_LT(relative_error(got[i], want[i]), kTolerance) << "row " << i;
  }
  std::vector<float> state(ModelRig& rig, int64_t slot) {
    const std::vector<std::byte> bytes = rig.pool().read(slot);
    std::vector<float> numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }

  const Devices one_ = cpu_devices(1);
  Devices several_;
  std::unique_ptr<ModelRig> whole_, parts_;
};

TEST_P(Slices, LogitsAndStatesAreThoseOfOneDevice) {
  const std::vector<std::vector<Feed>> steps = {{{5, random_tokens(17, 1, kVocabulary)},
                                                 {0, random_tokens(1, 2, kVocabulary)},
                                                 {3, random_tokens(40, 3, kVocabulary)}},
                                                {{0, {3}}, {3, {5}}, {5, {6}}},
                                                {{3, {9}}},
                                                {{0, {7}}, {3, random_tokens(16, 4, kVocabulary)}, {5, {8}}}};
  for (const auto& feeds : steps) expect_alike(parts_->step(feeds), whole_->step(feeds));
  for (int64_t slot = 0; slot < 6; slot++) {
    EXPECT_LE(max_difference(state(*parts_, slot), state(*whole_, slot)), 1e-4) << "slot " << slot;
  }
}

TEST_P(Slices, ChunksOfAPromptAreThePrompt) {
  const std::vector<int32_t> tokens = random_tokens(61, 8, kVocabulary);
  const std::vector<float> want = whole_->feed(0, tokens);
  EXPECT_LT(relative_error(parts_->feed(1, tokens), want), kTolerance);
  EXPECT_LT(relative_error(parts_->feed(2, tokens, 7), want), kTolerance);
  EXPECT_LT(relative_error(parts_->feed(3, tokens, 1), want), kTolerance);
}

TEST_P(Slices, GreedyContinuationsAreTheSameTokens) {
  for (uint32_t seed = 20; seed < 24; seed++) {
    const std::vector<int32_t> prompt = random_tokens(9, seed, kVocabulary);
    EXPECT_EQ(parts_->greedy(0, prompt, 24), whole_->greedy(0, prompt, 24)) << "prompt " << seed;
  }
}

// A state goes on where it is taken to, and what is brought back is what was taken, byte by byte.
// Drawn as the engine does it, from logits that lie in parts, before and after they have been gathered.
TEST_P(Slices, DrawsAreThoseFromTheWholeLogits) {
  const std::vector<int32_t> token{5, 9, 41}, start{0, 1, 3}, slot{0, 1}, wanted{0, 1, 2};
  SamplingParams cold, warm, cut;
  cold.temperature = 0;
  warm.seed = 4, warm.top_logprobs = 3;
  cut.seed = 8, cut.top_p = 0.7f, cut.top_k = 20;
  const SamplingParams* const params[] = {&cold, &warm, &cut};
  std::vector<SampleRow> rows;
  for (const SamplingParams* one : params) {
    for (int32_t row = 0; row < 3; row++) rows.push_back({.logits_row = row, .params = one});
  }
  std::vector<SampledToken> apart(rows.size()), together(rows.size());
  std::vector<float> logits(3 * kVocabulary);
  parts_->model().begin({token, start, slot, wanted}, parts_->pool(), [&](const StepOutputs& outputs) {
    outputs.sample(rows, apart);
    outputs.ops().read(logits.data(), outputs.logits().data, logits.size() * sizeof(float));
    outputs.sample(rows, together);
  });
  parts_->model().finish();
  for (size_t i = 0; i < rows.size(); i++) {
    std::vector<float> row(logits.begin() + rows[i].logits_row * kVocabulary,
                           logits.begin() + (rows[i].logits_row + 1) * kVocabulary);
    const SampledToken want = sample_row(row, rows[i]);
    EXPECT_EQ(apart[i].token, want.token) << "row " << i;
    EXPECT_EQ(apart[i].logprob, want.logprob) << "row " << i;
    EXPECT_EQ(apart[i].top.size(), want.top.size()) << "row " << i;
    EXPECT_EQ(together[i].token, want.token) << "row " << i;
  }
}

TEST_P(Slices, AStateGoesOnWhereItIsTakenTo) {
  const std::vector<int32_t> tokens = random_tokens(23, 5, kVocabulary),
                             more = random_tokens(9, 6, kVocabulary);
  whole_->feed(0, tokens);
  const std::vector<std::byte> saved = whole_->pool().read(0);
  whole_->pool().copy(0, 1);
  const std::vector<float> want = whole_->feed(1, more);
  ASSERT_TRUE(parts_->pool().set(2, saved).ok());
  EXPECT_EQ(parts_->pool().read(2), saved) << "every byte has one place";
  parts_->pool().copy(2, 4);
  EXPECT_LT(relative_error(parts_->feed(4, more), want), kTolerance) << "from one device to several";
  ASSERT_TRUE(whole_->pool().set(3, parts_->pool().read(4)).ok());
  whole_->pool().copy(1, 5);
  EXPECT_LT(relative_error(whole_->feed(3, more), whole_->feed(5, more)), kTolerance) << "and back";
  parts_->pool().zero(2);
  EXPECT_LT(relative_error(parts_->feed(2, tokens), whole_->feed(4, tokens)), kTolerance) << "from nothing";
}

TEST_P(Slices, ATunedStateReachesEveryRank) {
  const StateLayout layout = whole_->model().state_layout();
  EXPECT_EQ(parts_->model().state_layout(), layout);
  const std::vector<std::vector<float>> wkv = made_up_state(layout);
  ASSERT_TRUE(whole_->pool().set_initial(1, wkv).ok());
  ASSERT_TRUE(parts_->pool().set_initial(1, wkv).ok());
  EXPECT_EQ(parts_->pool().read(1), whole_->pool().read(1));
  EXPECT_LT(relative_error(parts_->feed(1, {1, 2, 3}), whole_->feed(1, {1, 2, 3})), kTolerance);
}

TEST_P(Slices, TheWeightsHaveTheSameName) {
  EXPECT_EQ(parts_->model().fingerprint(), whole_->model().fingerprint());
}

INSTANTIATE_TEST_SUITE_P(Forms, Slices, testing::ValuesIn(kForms),
                         [](const auto& form) { return std::string(form.param.name); });

// Rows that may be wrong are rolled back on every rank, also where states are written behind some rows only.
TEST(SlicesWithRings, RevokedRowsLeaveNothing) {
  for (const Form& form : {kForms[0], kForms[4]}) {
    const Devices one = cpu_devices(1), two = cpu_devices(2, {.every = 3, .revocable = 4});
    ModelRig whole(synthetic_checkpoint(spec_of(form)), *one.front(), 2);
    ModelRig parts(synthetic_checkpoint(spec_of(form)), sliced_on(two, std::vector<int64_t>{kLayers}, 2), 2);
    ASSERT_TRUE(whole.loaded() && parts.loaded());
    for (const int32_t token : {3, 4, 5, 6}) {
      whole.feed(0, {token});
      parts.feed(0, {token});
    }
    parts.step({{0, {7, 60, 61, 62}, true}});
    parts.roll_back(0, 3);
    whole.feed(0, {7});
    EXPECT_LT(relative_error(parts.feed(0, {8}), whole.feed(0, {8})), kTolerance) << form.name;
  }
}

// Codes are cut at whole blocks, copies of which weights point to; slices of groups with scales beside them
// take theirs along.
TEST(QuantisedSlices, AreThoseOfTheWholeMatrices) {
  for (const char* name : {"q8_0", "nf4", "int8"}) {
    SyntheticSpec spec = spec_of(kForms[0]);
    spec.n_head = 8;
    spec.n_ffn = 512;
    const auto quantised = [&] {
      return quantise_checkpoint(synthetic_checkpoint(spec), quantise_all(*quantisation_named(name)));
    };
    auto first = quantised(), second = quantised();
    ASSERT_TRUE(first.ok() && second.ok());
    const Devices one = cpu_devices(1), two = cpu_devices(2);
    ModelRig whole(std::move(*first), *one.front(), 2);
    ModelRig parts(std::move(*second), sliced_on(two, std::vector<int64_t>{kLayers}, 2), 2);
    ASSERT_TRUE(whole.loaded() && parts.loaded());
    const std::vector<int32_t> tokens = random_tokens(20, 11, kVocabulary);
    EXPECT_LT(relative_error(parts.feed(0, tokens), whole.feed(0, tokens)), 2e-2) << name;
  }
}

// ---- sizes

TEST(Slice, PartsAreTheWholeWithoutGaps) {
  EXPECT_EQ(part_of({1, 2}, 64), (Part{32, 32}));
  EXPECT_EQ(part_of({0, 3}, 96), (Part{0, 32}));
  for (const int64_t vocab : {100, 65529, 65536, 50277, 13}) {
    const int64_t length = survey_slice_length(vocab);
    for (const int64_t count : {1, 2, 3, 4}) {
      int64_t next = 0;
      for (int64_t i = 0; i < count; i++) {
        const Part part = vocabulary_part({i, count}, vocab);
        EXPECT_EQ(part.first, next);
        EXPECT_GT(part.count, 0);
        EXPECT_EQ(part.first % length, 0) << "no slice of a survey is cut";
        next += part.count;
      }
      EXPECT_EQ(next, vocab);
    }
  }
  EXPECT_EQ(vocabulary_part({1, 2}, 65536), (Part{32768, 32768}));
}

std::string refusal(std::span<const Placed> stages, const LoadOptions& options = {}) {
  const auto loaded = Model::load(synthetic_checkpoint(spec_of(kForms[0])), stages, options);
  return loaded.ok() ? std::string() : loaded.error().text;
}

TEST(SliceErrors, HeadsDivideEqually) {
  const Devices four = cpu_devices(4);
  EXPECT_EQ(refusal(sliced_on(four, std::vector<int64_t>{kLayers}, 4)),
            "the model has 6 heads, which cannot be divided equally among 4 tensor-parallel devices");
}

TEST(SliceErrors, AllSlicesOfSomeLayersFollowOneAnother) {
  const Devices two = cpu_devices(2);
  const auto refused = [&](Slice first, Slice second, LayerRange layers = {0, kLayers}) {
    const Placed stages[] = {{two[0].get(), {0, kLayers}, first}, {two[1].get(), layers, second}};
    return refusal(stages);
  };
  EXPECT_EQ(refused({0, 2}, {1, 2}), "");
  EXPECT_EQ(refused({0, 2}, {0, 2}),
            "a stage holds slice 1 of 2 of layers [0, 4); wanted slice 2 of 2 of layers [0, 4)");
  EXPECT_EQ(refused({0, 3}, {1, 3}),
            "a stage holds slice 1 of 3 of layers [0, 4), and not all of them follow");
  EXPECT_EQ(refused({0, 2}, {1, 2}, {2, kLayers}),
            "a stage holds slice 2 of 2 of layers [2, 4); wanted slice 2 of 2 of layers [0, 4)");
}

TEST(SliceErrors, BlocksThatWouldBeCutAreNamed) {
  const Devices six = cpu_devices(6);
  SyntheticSpec narrow = spec_of(kForms[0]);
  narrow.head_size = 16;
  auto quantised =
      quantise_checkpoint(synthetic_checkpoint(narrow), quantise_all(*quantisation_named("q8_0")));
  ASSERT_TRUE(quantised.ok());
  const auto loaded =
      Model::load(std::move(*quantised), sliced_on(six, std::vector<int64_t>{kLayers}, 6), {});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(
      loaded.error().text,
      "tensor 'blocks.0.att.output.weight' holds q8_0 in groups of 32; a slice of 16 of its columns does not "
      "consist of whole ones");
}

TEST(SliceErrors, DevicesMakeWholeStages) {
  const Devices three = cpu_devices(3);
  std::vector<Ops*> devices;
  for (const auto& device : three) devices.push_back(device.get());
  const auto checkpoint = synthetic_checkpoint(spec_of(kForms[0]));
  const auto placed = place_layers(*checkpoint, identify(*checkpoint).value(), devices, {}, {}, 2);
  ASSERT_FALSE(placed.ok());
  EXPECT_EQ(placed.error().text, "3 devices do not make stages of 2 tensor-parallel devices each");
}

TEST(SlicePlan, EachRankTakesItsShareOfWeightsAndStates) {
  const auto checkpoint = synthetic_checkpoint(spec_of(kForms[0]));
  const ModelConfig config = identify(*checkpoint).value();
  const Devices two = cpu_devices(2);
  const auto alone = plan_memory(*checkpoint, config, *two.front(), {.slots = 4}).value();
  const auto plans =
      plan_stages(*checkpoint, config, sliced_on(two, std::vector<int64_t>{kLayers}, 2), {.slots = 4})
          .value();
  const StateLayout layout = state_layout_of(config, *two.front());
  for (const StagePlan& plan : plans) {
    EXPECT_EQ(plan.memory.per_slot, layout_of(layout, kLayers, {0, 2}).slot_bytes());
    EXPECT_LT(plan.memory.per_slot, alone.per_slot * 3 / 4);
  }
  EXPECT_GT(plans[0].memory.workspace, plans[1].memory.workspace) << "the first rank takes all logits";
}

// ---- steps that the caller leads

class LedSteps : public testing::Test {
 protected:
  void begin(int32_t token, Model::TakeOutputs take) {
    const std::vector<int32_t> start{0, 1}, slot{0}, wanted{0};
    rig_.model().begin({{&token, 1}, start, slot, wanted}, rig_.pool(), std::move(take));
  }

  const Devices two_ = cpu_devices(2);
  ModelRig rig_{synthetic_checkpoint(spec_of(kForms[0])), sliced_on(two_, std::vector<int64_t>{kLayers}, 2),
                2};
};

TEST_F(LedSteps, OutputsAreTakenBeforeThoseOfTheNextStepTakeTheirPlace) {
  std::vector<int> order;
  begin(1, [&](const StepOutputs&) { order.push_back(1); });
  EXPECT_TRUE(order.empty());
  begin(2, [&](const StepOutputs&) { order.push_back(2); });
  EXPECT_EQ(order, std::vector<int>{1});
  rig_.model().finish();
  EXPECT_EQ(order, std::vector<int>{1}) << "once only";
  rig_.model().finish();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(LedSteps, AbandonedOnesAreNotTakenAndOthersFollow) {
  bool taken = false;
  begin(1, [&](const StepOutputs&) { taken = true; });
  rig_.model().abandon();
  EXPECT_FALSE(taken);
  EXPECT_EQ(rig_.model().under_way(), 0u);
  begin(2, [&](const StepOutputs&) { taken = true; });
  rig_.model().finish();
  EXPECT_TRUE(taken);
}

TEST_F(LedSteps, StatesAreReadWhileOneIsUnderWay) {
  begin(1, {});
  const std::vector<std::byte> state = rig_.pool().read(0);
  rig_.model().finish();
  EXPECT_EQ(rig_.pool().read(0), state);
}

TEST_F(LedSteps, AModelMayEndWithOneUnderWay) {
  begin(1, [](const StepOutputs&) { ADD_FAILURE() << "nobody waits for it"; });
}

// ---- failures

std::string failure_of(ModelRig& rig) {
  const std::vector<int32_t> token{1}, start{0, 1}, slot{0}, wanted{0};
  bool taken = false;
  std::string text;
  try {
    rig.model().begin({token, start, slot, wanted}, rig.pool(), [&](const StepOutputs&) { taken = true; });
    rig.model().finish();
  } catch (const DeviceFailure& failure) {
    text = failure.what();
  }
  rig.model().abandon();
  EXPECT_FALSE(taken);
  return text;
}

TEST(SliceFailures, ARankThatFailsEndsTheStepOfAll) {
  for (const size_t broken : {0u, 1u}) {
    Devices two = cpu_devices(2);
    two[broken] = std::make_unique<support::WatchedOps>([] { throw DeviceFailure("the bus has gone"); });
    ModelRig rig(synthetic_checkpoint(spec_of(kForms[0])), sliced_on(two, std::vector<int64_t>{kLayers}, 2),
                 2);
    ASSERT_TRUE(rig.loaded());
    EXPECT_EQ(failure_of(rig), "the bus has gone");
    EXPECT_THROW(rig.pool().read(0), DeviceFailure);
  }
}

TEST(SliceFailures, ARankThatDoesNotComeInTimeIsNamed) {
  std::promise<void> over;
  Devices two = cpu_devices(2);
  two[1] = std::make_unique<support::WatchedOps>([&, wait = over.get_future().share()] { wait.wait(); });
  ModelRig rig(synthetic_checkpoint(spec_of(kForms[0])), sliced_on(two, std::vector<int64_t>{kLayers}, 2), 2,
               {.collective_timeout = std::chrono::milliseconds(50)});
  ASSERT_TRUE(rig.loaded());
  auto failed = std::async(std::launch::async, [&] { return failure_of(rig); });
  // So much longer than rank 0 waits that it has given up by then on a busy machine, too.
  EXPECT_EQ(failed.wait_for(std::chrono::seconds(1)), std::future_status::timeout)
      << "a step is over when all its ranks are";
  over.set_value();
  EXPECT_NE(failed.get().find("has waited 50 ms for rank 1"), std::string::npos);
}

}  // namespace
}  // namespace fulmar
