// A merged model gives the logits of the reference: for each form of file, and for each kind at several
// strengths.
#include "adapters/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "adapters/adapter_goldens.h"
#include "cpu/cpu_ops.h"
#include "files/quantised.h"
#include "support/adapter_recipe.h"
#include "support/golden.h"
#include "support/model_rig.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

using namespace test;
using support::Json;
using support::ModelRig;
using testing::HasSubstr;

// The logits after a prompt, from the model's own initial state where it has one.
std::vector<float> logits_of(std::unique_ptr<Checkpoint> model, int64_t n_layer,
                             const std::vector<int32_t>& prompt) {
  const auto states = support::time_states(*model, n_layer);
  const auto ops = make_cpu_ops({.threads = 2});
  ModelRig rig(std::move(model), *ops, 1);
  if (!rig.loaded()) return {};
  if (!states.empty()) {
    EXPECT_TRUE(rig.pool().set_initial(0, states).ok());
  }
  return rig.feed(0, prompt);
}

TEST(MergeAdapter, EveryFormGivesTheReferencesLogits) {
  const Json golden = support::read_golden("adapters-files");
  if (golden.is_null()) GTEST_SKIP() << "no golden files here";
  for (const Json& file : golden["files"]) {
    SCOPED_TRACE(file["path"].get<std::string>());
    Base base = open_base(file["model"]);
    const auto path = support::shared_folder() / file["path"].get<std::string>();
    const auto adapter = read_for(path, options_of(file["options"], path.parent_path()), base.shapes);
    ASSERT_TRUE(adapter.ok()) << adapter.error().text;
    auto merged = merge_adapter(std::move(base.checkpoint), *adapter, {});
    ASSERT_TRUE(merged.ok()) << merged.error().text;
    expect_logits(logits_of(std::move(merged).value(), base.config.n_layer, file["prompt"]), file["result"]);
  }
}

// The model of the golden runs.
Base golden_base(const Json& golden) {
  const std::string name = golden["model"];
  if (!name.starts_with("synth")) return open_base(name);
  SyntheticSpec spec;
  spec.version = name.starts_with("synth 6") ? 6 : 7;
  spec.rank_mix = 4, spec.rank_decay = 8;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = 8;
  spec.n_layer = 3, spec.n_head = 4, spec.head_size = 16, spec.vocab = 48, spec.n_ffn = 256;
  Base base{synthetic_checkpoint(spec), {}, {}};
  base.config = identify(*base.checkpoint).value();
  base.shapes = base_shapes(*base.checkpoint, base.config);
  return base;
}

HostTensor recipe_tensor(const std::string& name, std::vector<int64_t> shape, double amp) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return host_tensor(support::recipe_numbers(name, static_cast<size_t>(count), amp), std::move(shape),
                     DType::f32);
}

// Norms of a matrix's rows or columns, times 1 and a fifth more or less.
HostTensor recipe_magnitude(const StoredTensor& matrix, const std::string& name, bool rows) {
  const auto cols = static_cast<size_t>(matrix.shape[1]);
  std::vector<float> w(static_cast<size_t>(matrix.count()));
  copy_as_f32(matrix, w);
  std::vector<double> squares(static_cast<size_t>(matrix.shape[rows ? 0 : 1]));
  for (size_t i = 0; i < w.size(); i++)
    squares[rows ? i / cols : i % cols] += static_cast<double>(w[i]) * static_cast<double>(w[i]);
  std::vector<float> m = support::recipe_numbers(name, squares.size(), 0.2, 1.0);
  for (size_t i = 0; i < m.size(); i++)
    m[i] = static_cast<float>(std::sqrt(squares[i]) * static_cast<double>(m[i]));
  const auto count = static_cast<int64_t>(m.size());
  return host_tensor(m, {count}, DType::f32);
}

Delta recipe_delta(const Json& one, const std::string& weight, const Base& base) {
  const LinearShape linear = linear_of(base.shapes, weight).value();
  const std::string part = weight.ends_with(".weight") ? weight.substr(0, weight.size() - 7) : weight;
  const std::string kind = one["kind"];
  const int64_t rank = one["rank"];
  const double amp = one["amp"];
  Delta delta;
  delta.weight = weight;
  delta.scale = one["scale"];
  if (kind == "miss") {
    delta.kind = DeltaKind::miss;
    delta.d = recipe_tensor(part + ".miss", {rank, linear.out}, amp);
  } else if (kind.starts_with("bat")) {
    delta.kind = kind == "bat_in" ? DeltaKind::bat_in : DeltaKind::bat_out;
    const int64_t blocks = (kind == "bat_in" ? linear.in : linear.out) / rank;
    delta.d = recipe_tensor(part + ".bat", {blocks, rank, rank}, amp / static_cast<double>(rank));
  } else {
    delta.a =
        recipe_tensor(part + ".lora_A", {rank, linear.in}, 1 / std::sqrt(static_cast<double>(linear.in)));
    delta.b = recipe_tensor(part + ".lora_B", {linear.out, rank}, amp);
  }
  if (!kind.starts_with("dora")) return delta;
  delta.kind = kind == "dora_out" ? DeltaKind::dora_out : DeltaKind::dora_in;
  delta.m = recipe_magnitude(*base.checkpoint->find(weight), part + ".m", kind == "dora_out");
  return delta;
}

Adapter recipe_adapter(const Json& one, const Base& base) {
  Adapter adapter;
  const auto names = one["targets"].is_string()
                         ? support::adapted_matrices(base.config.version, base.config.n_layer)
                         : one["targets"].get<std::vector<std::string>>();
  for (const std::string& name : names) adapter.deltas.push_back(recipe_delta(one, name, base));
  const Json whole = one.value("whole", Json::object());
  for (const auto& [name, how] : whole.items()) {
    const StoredTensor& before = *base.checkpoint->find(name);
    HostTensor value = recipe_tensor(name + ".new", before.shape, 0.1);
    std::vector<float> sum(static_cast<size_t>(before.count())), more = value.floats();
    copy_as_f32(before, sum);
    for (size_t i = 0; i < sum.size(); i++) sum[i] += more[i];
    adapter.whole.push_back({name, host_tensor(sum, before.shape, DType::f32)});
  }
  if (!one.contains("state")) return adapter;
  for (int64_t l = 0; l < base.config.n_layer; l++) {
    const std::string name = "blocks." + std::to_string(l) + ".att.time_state";
    adapter.states.push_back(
        {name, recipe_tensor(name, {base.config.n_head, base.config.head_size, base.config.head_size}, 0.3)});
  }
  return adapter;
}

class MergeGolden : public testing::TestWithParam<size_t> {};

TEST_P(MergeGolden, EveryKindAndStrengthGivesTheReferencesLogits) {
  const Json all = support::read_golden("adapters-logits");
  if (all.is_null()) GTEST_SKIP() << "no golden files here";
  const Json& golden = all["models"][GetParam()];
  for (const Json& one : golden["cases"]) {
    for (const Json& run : one["runs"]) {
      if (run["prompt"] != 0) continue;
      SCOPED_TRACE(one["kind"].get<std::string>() + " at " + std::to_string(run["t"].get<double>()));
      Base base = golden_base(golden);
      Adapter adapter = recipe_adapter(one, base);
      ASSERT_TRUE(fit_adapter(adapter, base.shapes).ok());
      auto merged = merge_adapter(std::move(base.checkpoint), adapter, {.strength = run["t"]});
      ASSERT_TRUE(merged.ok()) << merged.error().text;
      expect_logits(logits_of(std::move(merged).value(), base.config.n_layer, golden["prompts"][0]), run);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MergeGolden, testing::Range<size_t>(0, 5));

Base small_model(DType dtype = DType::f16) {
  Base base{synthetic_checkpoint(support::small_spec(7, 2, 32, dtype)), {}, {}};
  base.config = identify(*base.checkpoint).value();
  base.shapes = base_shapes(*base.checkpoint, base.config);
  return base;
}

Adapter one_pair(const Base& base, const std::string& weight, double amp) {
  return recipe_adapter(
      Json{{"kind", "lora"}, {"rank", 2}, {"amp", amp}, {"scale", 1.0}, {"targets", {weight}}}, base);
}

TEST(MergeAdapter, QuantisedWeightsAreRefusedByName) {
  Base base = small_model();
  const Adapter adapter = one_pair(base, "blocks.1.att.key.weight", 0.1);
  auto quantised = quantise_checkpoint(std::move(base.checkpoint), quantise_all(*quantisation_named("q8_0")));
  ASSERT_TRUE(quantised.ok());
  const auto merged = merge_adapter(std::move(quantised).value(), adapter, {});
  ASSERT_FALSE(merged.ok());
  EXPECT_THAT(merged.error().text,
              HasSubstr("'blocks.1.att.key.weight' is q8_0, which would be rounded twice"));
}

TEST(MergeAdapter, WhatTheTypeCannotHoldIsRefusedByName) {
  Base base = small_model();
  const auto merged =
      merge_adapter(std::move(base.checkpoint), one_pair(base, "blocks.1.att.key.weight", 1e8), {});
  ASSERT_FALSE(merged.ok());
  EXPECT_THAT(merged.error().text, HasSubstr("'blocks.1.att.key.weight' becomes"));
  EXPECT_THAT(merged.error().text, HasSubstr("which f16 cannot hold"));
}

TEST(MergeAdapter, StrengthIsBoundedAndZeroChangesNothing) {
  for (const double wrong : {101.0, -101.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    Base base = small_model();
    const Adapter adapter = one_pair(base, "head.weight", 0.1);
    EXPECT_FALSE(merge_adapter(std::move(base.checkpoint), adapter, {.strength = wrong}).ok()) << wrong;
  }
  Base base = small_model(DType::bf16);
  const auto before = gather_contiguous(*base.checkpoint->find("head.weight"));
  const Adapter adapter = one_pair(base, "head.weight", 0.1);
  const auto merged = merge_adapter(std::move(base.checkpoint), adapter, {.strength = 0});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(gather_contiguous(*(*merged)->find("head.weight")), before);
}

TEST(MergeAdapter, WhatLooksLikePissaIsSaid) {
  for (const auto& [amp, count] : {std::pair(1e-4, 0u), {3.0, 1u}}) {
    Base base = small_model(DType::f32);
    const Adapter adapter = one_pair(base, "blocks.0.ffn.value.weight", amp);
    std::vector<std::string> warnings;
    ASSERT_TRUE(merge_adapter(std::move(base.checkpoint), adapter, {}, &warnings).ok());
    EXPECT_EQ(warnings.size(), count) << amp;
  }
}

}  // namespace
}  // namespace fulmar
