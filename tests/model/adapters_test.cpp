// Adapters beside a model: their logits against the golden ones of a double-precision reference, rows of
// several adapters in one step, and the same on devices that share the model.
#include <gtest/gtest.h>

#include <cmath>

#include "cpu/cpu_ops.h"
#include "support/adapter_recipe.h"
#include "support/golden.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::AdapterRecipe;
using support::Feed;
using support::Json;
using support::ModelRig;
using support::RecipeSpec;

RecipeSpec spec_of(const Json& one) {
  return {one["kind"], one["rank"], one["amp"], one["scale"].get<float>()};
}

// Whether a kind has a form that is computed beside the model.
bool lives(const Json& one) { return one["kind"] != "bat_out" && one["targets"] == "all matrices"; }

struct GoldenModel {
  std::string name;
  int version = 7;
  int64_t n_layer = 0;
  std::unique_ptr<Checkpoint> checkpoint;
};

GoldenModel model_of(const Json& golden) {
  GoldenModel model{golden["model"]};
  if (!model.name.starts_with("synth")) {
    model.checkpoint = support::golden_checkpoint(golden);
  } else {
    SyntheticSpec spec = model.name.starts_with("synth 6")
                             ? SyntheticSpec{.version = 6, .rank_mix = 4, .rank_decay = 8}
                             : SyntheticSpec{.rank_w = 8, .rank_a = 8, .rank_v = 8, .rank_g = 8};
    spec.n_layer = 3, spec.n_head = 4, spec.head_size = 16, spec.vocab = 48, spec.n_ffn = 256;
    model.checkpoint = synthetic_checkpoint(spec);
  }
  while (model.checkpoint->find("blocks." + std::to_string(model.n_layer) + ".ln2.weight")) model.n_layer++;
  if (model.checkpoint->find("blocks.0.att.time_maa_w1")) model.version = 6;
  return model;
}

// Compares logits with a golden run, which has all of them, or the first and last and two sums.
void expect_logits(const std::vector<float>& got, const Json& want, double scale, const std::string& what) {
  const auto near = [&](size_t i, double wanted) {
    if (wanted > -9999) {
      EXPECT_NEAR(static_cast<double>(got[i]), wanted, 1e-4 * scale) << what << ", logit " << i;
    }
  };
  const Json& head = want.contains("logits") ? want["logits"] : want["first"];
  for (size_t i = 0; i < head.size(); i++) near(i, head[i]);
  if (!want.contains("last")) return;
  const Json& tail = want["last"];
  for (size_t i = 0; i < tail.size(); i++) near(got.size() - tail.size() + i, tail[i]);
}

// How far logits reach, in units of 20, by which the golden files' tolerance grows.
double scale_of(const std::vector<float>& base) {
  double most = 0;
  for (const float one : base) {
    if (one > -9999.0f) most = std::max(most, std::abs(static_cast<double>(one)));
  }
  return std::max(1.0, most / 20);
}

class AdapterGolden : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    const Json all = support::read_golden("adapters-logits");
    if (all.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
    golden_ = all["models"][GetParam()];
    model_ = model_of(golden_);
    ASSERT_NE(model_.checkpoint, nullptr);
    for (const Json& one : golden_["cases"]) {
      if (!lives(one)) continue;
      cases_.push_back(one);
      recipes_.push_back(support::make_adapter(
          spec_of(one), support::adapted_matrices(model_.version, model_.n_layer), *model_.checkpoint));
    }
  }
  std::vector<int32_t> prompt(size_t index) const { return golden_["prompts"][index]; }

  Json golden_;
  GoldenModel model_;
  std::vector<Json> cases_;
  std::vector<AdapterRecipe> recipes_;
};

TEST_P(AdapterGolden, EveryKindAndScaleGivesTheReferencesLogits) {
  const auto ops = make_cpu_ops({.threads = 2});
  ModelRig rig(std::move(model_.checkpoint), *ops);
  ASSERT_TRUE(rig.loaded());
  for (size_t i = 0; i < cases_.size(); i++) {
    const auto adapter = rig.adapt(recipes_[i].deltas);
    ASSERT_NE(adapter, nullptr);
    for (const Json& run : cases_[i]["runs"]) {
      const auto tokens = prompt(run["prompt"]);
      const auto base = rig.step({{0, tokens}}).front();
      rig.pool().zero(0);
      const float t = run["t"];
      const auto got = rig.step({{1, tokens, false, {&adapter->deltas(), t}}}).front();
      expect_logits(got, run, scale_of(base),
                    cases_[i]["kind"].get<std::string>() + " at " + std::to_string(t));
      if (t == 0) {
        EXPECT_EQ(got, base);
      }
      rig.pool().zero(1);
    }
  }
}

TEST_P(AdapterGolden, RowsOfSeveralAdaptersInOneStepAreWhatTheyAreAlone) {
  const auto ops = make_cpu_ops({.threads = 2, .deterministic = true});
  ModelRig rig(std::move(model_.checkpoint), *ops, 6);
  ASSERT_TRUE(rig.loaded());
  std::vector<std::unique_ptr<DeviceAdapter>> adapters;
  for (const AdapterRecipe& recipe : recipes_) adapters.push_back(rig.adapt(recipe.deltas));
  std::vector<Feed> feeds;
  for (const Json& row : golden_["batch"]["rows"]) {
    Feed feed{static_cast<int64_t>(feeds.size()), prompt(0)};
    for (size_t i = 0; i < cases_.size() && feed.deltas.deltas == nullptr; i++) {
      if (cases_[i]["kind"] == row["adapter"]) feed.deltas = {&adapters[i]->deltas(), row["t"].get<float>()};
    }
    feeds.push_back(feed);
  }
  const auto together = rig.step(feeds);
  for (size_t i = 0; i < feeds.size(); i++) {
    const Json& row = golden_["batch"]["rows"][i];
    expect_logits(together[i], row, scale_of(together[0]), "row " + std::to_string(i));
    rig.pool().zero(5);
    const auto alone = rig.step({{5, feeds[i].tokens, false, feeds[i].deltas}}).front();
    EXPECT_EQ(alone, together[i]) << "row " << i;
  }
  // What follows token by token, each row by its own adapter.
  std::vector<Feed> next = feeds;
  for (Feed& feed : next) feed.tokens = {3};
  const auto decoded = rig.step(next);
  const auto alone = rig.step({{5, {3}, false, feeds.back().deltas}}).front();
  EXPECT_EQ(alone, decoded.back());
}

TEST_P(AdapterGolden, StagesAndSlicesShareAnAdapter) {
  std::vector<std::vector<float>> whole;
  const auto tokens = prompt(0);
  {
    const auto ops = make_cpu_ops({.threads = 1});
    ModelRig rig(model_of(golden_).checkpoint, *ops);
    for (const AdapterRecipe& recipe : recipes_) {
      const auto adapter = rig.adapt(recipe.deltas);
      rig.pool().zero(0);
      whole.push_back(rig.step({{0, tokens, false, {&adapter->deltas(), 0.75f}}}).front());
    }
  }
  const support::Devices devices = support::cpu_devices(4);
  const std::array<int64_t, 2> ends = {1, model_.n_layer};
  const bool slices = golden_["model"].get<std::string>().starts_with("synth");
  const auto placed =
      slices ? support::sliced_on(devices, ends, 2) : support::placed_on(std::span(devices).first(2), ends);
  ModelRig rig(std::move(model_.checkpoint), placed);
  ASSERT_TRUE(rig.loaded());
  for (size_t i = 0; i < recipes_.size(); i++) {
    const auto adapter = rig.adapt(recipes_[i].deltas);
    ASSERT_NE(adapter, nullptr);
    rig.pool().zero(0);
    const auto got = rig.step({{0, tokens, false, {&adapter->deltas(), 0.75f}}}).front();
    EXPECT_LT(support::relative_error(got, whole[i]), 2e-5) << cases_[i]["kind"];
  }
}

class AdapterFit : public testing::Test {
 protected:
  void SetUp() override {
    spec_ = support::small_spec(7, 2, 16);
    checkpoint_ = synthetic_checkpoint(spec_);
    made_ = support::make_adapter({"lora", 3, 0.05, 1}, {"blocks.1.att.key.weight"}, *checkpoint_);
  }
  // The error of loading these changes.
  std::string refusal(const std::vector<HostDelta>& deltas) {
    const auto ops = make_cpu_ops({.threads = 1});
    ModelRig rig(synthetic_checkpoint(spec_), *ops);
    const auto adapter = rig.model().load_adapter(deltas);
    return adapter.ok() ? "loaded" : adapter.error().text;
  }
  SyntheticSpec spec_;
  std::unique_ptr<Checkpoint> checkpoint_;
  AdapterRecipe made_;
};

TEST_F(AdapterFit, WhatDoesNotFitTheModelIsRefusedByName) {
  const HostDelta good = made_.deltas.front();
  EXPECT_EQ(refusal({good}), "loaded");
  const auto with = [&](auto change) {
    HostDelta one = good;
    change(one);
    return refusal({one});
  };
  const std::string key = "the adapter's change of 'blocks.1.att.key.weight' ";
  EXPECT_EQ(refusal({good, good}), "the adapter changes 'blocks.1.att.key.weight' twice");
  EXPECT_EQ(with([](HostDelta& one) { one.matrix = "blocks.9.att.key.weight"; }),
            "the adapter changes 'blocks.9.att.key.weight', which the model lacks");
  EXPECT_EQ(with([](HostDelta& one) { one.matrix = "blocks.1.ffn.key.weight"; }),
            "the adapter's change of 'blocks.1.ffn.key.weight' has the B [32, 3]; wanted [64, 3]");
  EXPECT_EQ(
      with([](HostDelta& one) { one.matrix = "emb.weight"; }),
      "the adapter's change of 'emb.weight' cannot be computed beside the model, which looks its rows up; "
      "merge the adapter");
  EXPECT_EQ(with([](HostDelta& one) { one.rank = 0; }), key + "has rank 0; wanted at least 1");
  EXPECT_EQ(with([](HostDelta& one) { one.rank = 4; }), key + "has the A [3, 32]; wanted [4, 32]");
  EXPECT_EQ(with([](HostDelta& one) { one.up = {}; }), key + "has no B");
  EXPECT_EQ(with([](HostDelta& one) { one.scale = INFINITY; }), key + "has a scale that is no number");
  const std::vector<float> few(31);
  EXPECT_EQ(with([&](HostDelta& one) { one.gain = few; }), key + "has 31 magnitudes of outputs; wanted 32");
  EXPECT_EQ(with([&](HostDelta& one) { one.input_gain = few; }),
            key + "has 31 magnitudes of inputs; wanted 32");
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterGolden, testing::Range<size_t>(0, 5));

}  // namespace
}  // namespace fulmar
