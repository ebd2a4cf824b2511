// Losses and gradients of whole models against the golden files: every weight, initial states and shifts,
// factors of LoRA and MiSS; in f64 to the last digits, in f32 within twenty times what rounding alone does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/finite_differences.h"
#include "tune/golden_models.h"

namespace fulmar {
namespace {

using namespace test;
using support::Json;

// The group of tensors that a tensor's tolerance belongs to.
std::string group_of(const std::string& name) {
  const std::string end = name.substr(name.rfind('.') + 1);
  if (end == "time_state") return "state";
  if (end == "shift0" || end == "miss") return end;
  return end.starts_with("lora_") ? "lora" : "model";
}

// Adds the adapter and the states that a case names.
template <class Number>
void prepare(ModelParameters<Number>& parameters, const std::string& what) {
  const auto numbers = [&](const std::string& name, double amplitude) {
    Parameter<Number>& p = *parameters.find(name);
    std::vector<float> values(p.value.values.size());
    synthetic_numbers(name, 0, amplitude, values);
    std::ranges::copy(values, p.value.values.begin());
  };
  if (what.starts_with("state 0.3")) {
    for (int64_t l = 0; l < parameters.config.n_layer; l++) {
      numbers("blocks." + std::to_string(l) + ".att.time_state", 0.3);
    }
  }
  const bool lora = what.find("LoRA") != std::string::npos, miss = what.find("MiSS") != std::string::npos;
  if (!lora && !miss) return;
  std::vector<std::string> matrices = adapted_matrices_of(parameters.config);
  if (lora) matrices.push_back("head");
  for (const std::string& matrix : matrices) {
    add_adapter(parameters, matrix,
                lora ? AdapterShape{AdapterKind::lora, 4, 2} : AdapterShape{AdapterKind::miss, 6, 1}, 0);
    numbers(matrix + (lora ? ".lora_B" : ".miss"), 0.05);
  }
}

template <class Number>
void check_case(const Json& golden, double tolerance_of_f64) {
  SCOPED_TRACE(golden["model"].get<std::string>() + ", " + golden["what"].get<std::string>());
  ModelParameters<Number> parameters = golden_parameters<Number>(golden["model"]);
  prepare(parameters, golden["what"]);
  parameters.train(std::vector<std::string_view>{""});
  TrainedModel<Number> model(parameters);
  const Json& yardstick = golden["yardstick"];
  const bool f32 = tolerance_of_f64 == 0;
  const double loss = golden["loss"];
  EXPECT_NEAR(model.loss_and_gradients(golden_batch(golden)), loss,
              f32 ? std::max(1e-5, 20 * yardstick["loss_f32"].get<double>()) : 1e-7 * loss);
  for (const auto& [name, wanted] : golden["tensors"].items()) {
    const Parameter<Number>* parameter = parameters.find(name);
    ASSERT_NE(parameter, nullptr) << name;
    const Matrix<Number>& gradient = parameter->gradient;
    const double norm = wanted[0], checksum = wanted[1],
                 spread = std::sqrt(static_cast<double>(gradient.values.size()));
    const Json& group = yardstick[group_of(name)];
    const double tolerance = f32 ? 20 * group["f32"].get<double>() : tolerance_of_f64;
    const double bound = tolerance * std::max(norm, 1e-3 * group["norm"].get<double>() / spread);
    EXPECT_NEAR(euclidean_norm(gradient), norm, bound) << name;
    EXPECT_NEAR(tuned_checksum(gradient), checksum, bound * spread) << name;
    if (!golden["samples"].contains(name)) continue;
    for (const Json& sample : golden["samples"][name]) {
      EXPECT_NEAR(static_cast<double>(gradient.values.at(sample[0])), sample[1].get<double>(), bound) << name;
    }
  }
}

class Gradients : public testing::TestWithParam<const char*> {
 protected:
  // Calls `check` for each case of the model whose loss this program computes.
  void for_cases(const std::function<void(const Json&)>& check) {
    const Json golden = support::read_golden("tuning-gradients");
    if (golden.is_null()) GTEST_SKIP() << "no golden files beside the checkout";
    int count = 0;
    for (const Json& one : golden["cases"]) {
      if (!one["model"].get<std::string>().starts_with(GetParam()) || one["l2wrap"] != 0.0) continue;
      check(one);
      count++;
    }
    EXPECT_EQ(count, 3) << "of zero states, states with LoRA, and MiSS";
  }
};

TEST_P(Gradients, OfEveryTensorInF64) {
  for_cases([](const Json& golden) { check_case<double>(golden, 1e-6); });
}

TEST_P(Gradients, OfEveryTensorInF32) {
  for_cases([](const Json& golden) { check_case<float>(golden, 0); });
}

INSTANTIATE_TEST_SUITE_P(Models, Gradients,
                         testing::Values("rwkv7-reverse", "tiny-rwkv7", "tiny-rwkv6", "synth 7", "synth 6"));

// The same without golden files: a computed model of each version, sequences of odd lengths, masked targets.
TEST(ModelGradients, AreThoseOfTheLoss) {
  for (const int version : kVersions) {
    SyntheticSpec spec{
        .version = version, .n_layer = 3, .n_head = 2, .head_size = 4, .vocab = 11, .n_ffn = 24};
    spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = spec.rank_decay = 3;
    auto loaded = load_parameters<double>(*synthetic_checkpoint(spec));
    ASSERT_TRUE(loaded.ok()) << loaded.error().text;
    ModelParameters<double>& parameters = *loaded;
    support::RandomNumbers random(5);
    int kind = 0;
    for (const std::string& matrix : adapted_matrices_of(parameters.config)) {
      add_adapter(parameters, matrix, {kind++ % 2 == 0 ? AdapterKind::lora : AdapterKind::miss, 3, 1.5}, 1);
    }
    for (auto& [name, parameter] : parameters.all) {
      for (const char* end : {".lora_B", ".miss", "time_state", "shift0"}) {
        if (!name.ends_with(end)) continue;
        for (double& one : parameter.value.values) one = 0.5 * random.number();
      }
    }
    parameters.train(std::vector<std::string_view>{""});
    TrainedModel<double> model(parameters);
    TuneBatch batch;
    batch.bounds = {0, 1, 18, 21};
    for (int32_t t = 0; t < 21; t++) {
      batch.tokens.push_back(t * 7 % 11);
      batch.targets.push_back(t % 4 == 3 ? -100 : t * 3 % 11);
    }
    EXPECT_EQ(model.loss_and_gradients(batch), model.loss(batch));
    std::vector<support::CheckedTensor> checked;
    for (auto& [name, parameter] : parameters.all)
      checked.push_back({name, &parameter.value, &parameter.gradient});
    support::expect_gradients(checked, random, [&] { return model.loss(batch); });
  }
}

TEST(ModelGradients, OfAModelWithDeepEmbeddingsAreRefused) {
  SyntheticSpec spec{.n_layer = 1, .n_head = 1, .head_size = 4, .vocab = 11, .n_ffn = 8};
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.deep_embed_rank = 2;
  EXPECT_THAT(load_parameters<float>(*synthetic_checkpoint(spec)).error().text,
              testing::HasSubstr("RWKV-7a"));
}

}  // namespace
}  // namespace fulmar
