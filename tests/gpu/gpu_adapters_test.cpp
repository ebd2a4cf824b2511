// Adapters beside a model on a GPU: what they change in the logits is what they change on the CPU, whose
// changes the golden files bear out.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "cpu/cpu_ops.h"
#include "gpu/gpu_device.h"
#include "gpu/gpu_models.h"
#include "support/adapter_recipe.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::AdapterRecipe;
using support::Feed;
using support::ModelRig;

struct AdaptedModel {
  int version;
  const char* quantisation;  // null: 16 bits
};

// The kinds that a GPU computes, at ranks that divide nothing and at large ones.
const support::RecipeSpec kKinds[] = {
    {"lora", 1, 0.2, 2},    {"lora", 6, 0.1, 2},  {"lora", 13, 0.1, 1},  {"lora", 64, 0.05, 1},
    {"lora", 128, 0.05, 1}, {"miss", 6, 0.02, 1}, {"miss", 16, 0.02, 1}, {"dora_out", 4, 0.1, 2},
};

class GpuAdapters : public GpuTest, public testing::WithParamInterface<AdaptedModel> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (testing::Test::IsSkipped()) return;
    spec_ = two_layers(GetParam().version, 4, 512, 32);
    if (GetParam().quantisation != nullptr) spec_.quantisation = quantisation_named(GetParam().quantisation);
    SyntheticSpec plain = spec_;  // whose numbers the magnitudes of DoRA are made of
    plain.quantisation.reset();
    const auto numbers = synthetic_checkpoint(plain);
    auto matrices = support::adapted_matrices(spec_.version, spec_.n_layer);
    matrices.push_back("head.weight");
    for (const support::RecipeSpec& kind : kKinds) {
      recipes_.push_back(support::make_adapter(kind, matrices, *numbers));
    }
  }
  // Rows of a step: each adapter has one, at another scale and length; one has none.
  std::vector<Feed> feeds(const std::vector<std::unique_ptr<DeviceAdapter>>& adapters, size_t longest) {
    std::vector<Feed> rows{{0, support::random_tokens(longest, 1)}};
    for (size_t i = 0; i < adapters.size(); i++) {
      const size_t length = 1 + (longest - 1) * (i % 3) / 2;
      const float t = i % 2 == 0 ? 1.0f : -0.5f;
      rows.push_back({static_cast<int64_t>(i) + 1,
                      support::random_tokens(length, static_cast<uint32_t>(i)),
                      false,
                      {&adapters[i]->deltas(), t}});
    }
    return rows;
  }
  std::vector<std::vector<float>> play(Ops& ops, size_t longest, bool adapted) {
    ModelRig rig(synthetic_checkpoint(spec_), ops, 12, {.max_rows = 1024});
    std::vector<std::unique_ptr<DeviceAdapter>> adapters;
    for (const AdapterRecipe& recipe : recipes_) adapters.push_back(rig.adapt(recipe.deltas));
    std::vector<Feed> rows = feeds(adapters, longest);
    for (Feed& row : rows) {
      if (!adapted) row.deltas.scale = 0;
    }
    std::vector<std::vector<float>> all = rig.step(rows);
    for (Feed& row : rows) row.tokens = {7};
    for (int i = 0; i < 3; i++) {
      for (auto& logits : rig.step(rows)) all.push_back(std::move(logits));
    }
    return all;
  }

  SyntheticSpec spec_;
  std::vector<AdapterRecipe> recipes_;
};

double rms(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double one : numbers) sum += one * one;
  return std::sqrt(sum / static_cast<double>(numbers.size()));
}

std::vector<double> difference(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> out(a.size());
  for (size_t i = 0; i < a.size(); i++) out[i] = static_cast<double>(a[i]) - static_cast<double>(b[i]);
  return out;
}

TEST_P(GpuAdapters, ChangeTheLogitsAsOnTheCpu) {
  const auto cpu = make_cpu_ops({.threads = 4});
  for (const size_t longest : {size_t{1}, size_t{9}, size_t{150}}) {
    SCOPED_TRACE(longest);
    const auto want_base = play(*cpu, longest, false), want = play(*cpu, longest, true);
    const auto base = play(gpu(), longest, false), got = play(gpu(), longest, true);
    const size_t rows = 1 + std::size(kKinds);
    ASSERT_EQ(got.size(), rows * 4);
    for (size_t i = 0; i < got.size(); i++) {
      const auto wanted = difference(want[i], want_base[i]), found = difference(got[i], base[i]);
      std::vector<double> error(found.size());
      for (size_t j = 0; j < error.size(); j++) error[j] = found[j] - wanted[j];
      if (i % rows == 0) {
        EXPECT_LT(support::relative_error(got[i], base[i]), 0.01) << "the row without an adapter";
        continue;
      }
      EXPECT_GT(rms(wanted), 0.05) << "row " << i;
      EXPECT_LT(rms(error), 0.05 * rms(wanted))
          << "row " << i << ", " << kKinds[i % rows - 1].kind << " of rank " << kKinds[i % rows - 1].rank;
    }
  }
}

TEST_P(GpuAdapters, AtScaleZeroIsTheModelBitForBit) {
  const auto base = play(gpu(), 9, false);
  ModelRig rig(synthetic_checkpoint(spec_), gpu(), 12, {.max_rows = 1024});
  std::vector<Feed> rows = feeds({}, 9);
  EXPECT_EQ(rig.step(rows).front().size(), base.front().size());
  rig.pool().zero(0);
  const auto alone = rig.step({rows.front()}).front();
  const auto adapter = rig.adapt(recipes_.front().deltas);
  rig.pool().zero(0);
  EXPECT_EQ(rig.step({{0, rows.front().tokens, false, {&adapter->deltas(), 0}}}).front(), alone);
}

TEST_P(GpuAdapters, ChangesOfInputsAreRefused) {
  SyntheticSpec plain = spec_;
  plain.quantisation.reset();
  const auto numbers = synthetic_checkpoint(plain);
  ModelRig rig(synthetic_checkpoint(spec_), gpu());
  for (const char* kind : {"dora_in", "bat_in"}) {
    const AdapterRecipe made =
        support::make_adapter({kind, 8, 0.1, 1}, {"blocks.0.att.key.weight"}, *numbers);
    const auto adapter = rig.model().load_adapter(made.deltas);
    ASSERT_FALSE(adapter.ok());
    EXPECT_NE(adapter.error().text.find("merge the adapter"), std::string::npos) << adapter.error().text;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GpuAdapters,
                         testing::Values(AdaptedModel{7, nullptr}, AdaptedModel{6, nullptr},
                                         AdaptedModel{7, "int8"}, AdaptedModel{6, "int8"},
                                         AdaptedModel{7, "q4_k"}));

}  // namespace
}  // namespace fulmar
