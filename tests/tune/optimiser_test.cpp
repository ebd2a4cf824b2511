// Schedules and ten steps of Adam against the golden files: losses before every step, norms of the gradients,
// and what was trained.
#include "tune/optimiser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tune/golden_models.h"

namespace fulmar {
namespace {

using namespace test;
using support::Json;

TEST(LearningRates, AreThoseOfTheGoldenFile) {
  const Json golden = support::read_golden("tuning-data");
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside the checkout";
  for (const auto& [name, schedule, first_step] :
       {std::tuple("rwkv_peft", Schedule::cosine, 0), {"lightning", Schedule::geometric, 1}}) {
    const Json& wanted = golden["schedules"][name];
    const Json& args = wanted["args"];
    const LearningRate rate{schedule, args["lr_init"], args["lr_final"], args["warmup"]};
    for (const Json& value : wanted["values"]) {
      const double now = value[1];
      EXPECT_NEAR(learning_rate(rate, value[0].get<int64_t>() - first_step, args["total"]), now, 1e-12 * now);
    }
  }
}

TEST(LearningRates, OfEverySchedulePastItsEndAndWithoutWarmUp) {
  for (const Schedule schedule : {Schedule::geometric, Schedule::cosine, Schedule::constant}) {
    const LearningRate rate{schedule, 0.5, 0.1, 0};
    for (int64_t step = 0; step < 30; step++) {
      const double now = learning_rate(rate, step, 10);
      EXPECT_GE(now, 0.1 - 1e-12);
      EXPECT_LE(now, 0.5);
      if (step >= 10) {
        EXPECT_NEAR(now, schedule == Schedule::constant ? 0.5 : 0.1, 1e-12);
      }
    }
  }
}

TEST(Adam, LeavesEntriesWithoutGradientAndClipsTheRest) {
  ModelParameters<float> parameters;
  Parameter<float>& p = parameters.all["p"];
  p.value = p.gradient = Matrix<float>(1, 3);
  p.value.values = {1, 2, 3};
  p.gradient.values = {3, 0, -4};
  Adam<float> adam;
  EXPECT_DOUBLE_EQ(adam.step(parameters, 0.5, 1), 5);
  EXPECT_FLOAT_EQ(p.value.values[0], 0.5f);
  EXPECT_EQ(p.value.values[1], 2.0f);
  EXPECT_FLOAT_EQ(p.value.values[2], 3.5f);
  EXPECT_NEAR(adam.moments["p"].first.values[0], 0.1 * 0.6, 1e-6);

  p.gradient.values[1] = std::numeric_limits<float>::infinity();
  const std::vector<float> before = p.value.values;
  EXPECT_FALSE(std::isfinite(adam.step(parameters, 0.5, 1)));
  EXPECT_EQ(p.value.values, before);
  EXPECT_EQ(adam.steps, 1);
}

// Sets up what a golden trajectory trains; "state", "LoRA r 8 alpha 16 ..." or "MiSS r 8 scale 1 ...".
template <class Number>
void prepare(ModelParameters<Number>& parameters, const std::string& what) {
  if (what.starts_with("state")) return parameters.train(std::vector<std::string_view>{".time_state"});
  const int64_t rank = what[7] - '0';
  const bool lora = what.starts_with("LoRA");
  for (const std::string& matrix : adapted_matrices_of(parameters.config)) {
    add_adapter(parameters, matrix, {lora ? AdapterKind::lora : AdapterKind::miss, rank, lora ? 2.0 : 1.0},
                0);
  }
  parameters.train(std::vector<std::string_view>{".lora_A", ".lora_B", ".miss"});
}

// What a trajectory may differ by.
struct TrajectoryBounds {
  double loss, parameters;
};

template <class Number>
void check_trajectory(const Json& golden, const TrajectoryBounds& bounds) {
  SCOPED_TRACE(golden["model"].get<std::string>() + ", " + golden["what"].get<std::string>());
  ModelParameters<Number> parameters = golden_parameters<Number>(golden["model"]);
  prepare(parameters, golden["what"]);
  TrainedModel<Number> model(parameters);
  Adam<Number> adam;
  const Json &losses = golden["losses"], &batches = golden["batches"];
  for (size_t s = 0; s < losses.size(); s++) {
    const TuneBatch batch = golden_batch(batches[s % batches.size()]);
    const double wanted = losses[s];
    if (s + 1 == losses.size()) {
      EXPECT_NEAR(model.loss(batch), wanted, bounds.loss) << s;
      break;
    }
    for (auto& [name, parameter] : parameters.all) std::ranges::fill(parameter.gradient.values, Number(0));
    EXPECT_NEAR(model.loss_and_gradients(batch), wanted, bounds.loss) << s;
    const double norm = golden["grad_norms"][s];
    EXPECT_NEAR(adam.step(parameters, golden["lr"][s], 0), norm, 1e-3 * norm) << s;
  }
  const double all = golden["param_norm"];
  for (const auto& [name, wanted] : golden["params"].items()) {
    const Matrix<Number>& value = parameters.find(name)->value;
    const double norm = wanted[0], checksum = wanted[1];
    EXPECT_NEAR(euclidean_norm(value), norm, bounds.parameters * all) << name;
    EXPECT_NEAR(tuned_checksum(value), checksum,
                bounds.parameters * all * std::sqrt(static_cast<double>(value.values.size())))
        << name;
  }
}

class Trajectories : public testing::TestWithParam<int> {
 protected:
  Json golden() const {
    const Json all = support::read_golden("tuning-trajectory");
    return all.is_null() ? all : all["cases"][static_cast<size_t>(GetParam())];
  }
};

TEST_P(Trajectories, OfTenStepsInF64) {
  const Json golden = this->golden();
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside the checkout";
  check_trajectory<double>(golden, {1e-6, 1e-5});
}

TEST_P(Trajectories, OfTenStepsInF32) {
  const Json golden = this->golden();
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside the checkout";
  double drift = 1e-6;
  for (const double one : golden["losses_f32_minus_f64"]) drift = std::max(drift, std::abs(one));
  check_trajectory<float>(golden, {10 * drift, 10 * golden["param_f32_relative"].get<double>()});
}

INSTANTIATE_TEST_SUITE_P(Cases, Trajectories, testing::Range(0, 6));

}  // namespace
}  // namespace fulmar
