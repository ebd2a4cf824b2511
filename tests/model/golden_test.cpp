// The golden files: logits, states and greedy continuations of a double-precision reference.
#include "support/golden.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cpu/cpu_ops.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::Json;
using support::ModelRig;

constexpr double kLogitTolerance = 1e-4;

// Order-sensitive checksum of a row-major array, as the golden files define it.
double checksum(const std::vector<double>& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); i++) sum += values[i] * static_cast<double>(i * 7919 % 1009) / 1009;
  return sum;
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// The golden files lay RWKV-6 states out [head][key][value]; ours are [head][value][key].
std::vector<double> golden_order(std::vector<double> wkv, const Json& config) {
  if (config["version"] == 7) return wkv;
  const size_t heads = config["n_head"], n = config["head_size"];
  std::vector<double> out(wkv.size());
  for (size_t h = 0; h < heads; h++) {
    for (size_t i = 0; i < n; i++) {
      for (size_t j = 0; j < n; j++) out[(h * n + j) * n + i] = wkv[(h * n + i) * n + j];
    }
  }
  return out;
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    golden_ = support::read_golden(GetParam());
    if (golden_.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
    checkpoint_ = support::golden_checkpoint(golden_);
    ASSERT_NE(checkpoint_, nullptr);
  }

  void check_states(ModelRig& rig, const Json& wanted) {
    const StateLayout layout = rig.model().state_layout();
    for (int64_t l = 0; l < layout.n_layer; l++) {
      const Json& layer = wanted[static_cast<size_t>(l)];
      const auto check = [&](const std::string& name, const std::vector<double>& got) {
        const double size = layer[name + "_norm"];
        EXPECT_NEAR(norm_of(got), size, 1e-4 * (1 + size)) << name << " of layer " << l;
        EXPECT_NEAR(checksum(got), layer[name + "_chk"].get<double>(), 2e-4 * (1 + size))
            << name << " of " << l;
      };
      check("att_shift", rig.state_part(1, layout.offset(l, kAttShift), layout.n_embd));
      check("ffn_shift", rig.state_part(1, layout.offset(l, kFfnShift), layout.n_embd));
      const auto wkv = rig.state_part(1, layout.offset(l, kWkv), layout.n_embd * layout.head_size);
      check("wkv", golden_order(wkv, golden_["config"]));
    }
  }

  Json golden_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_P(Golden, LogitsStatesAndContinuationAgree) {
  const auto initial = support::time_states(*checkpoint_, golden_["config"]["n_layer"]);
  const std::unique_ptr<Ops> ops = make_cpu_ops({.threads = 2});
  ModelRig rig(std::move(checkpoint_), *ops, 2);
  ASSERT_TRUE(rig.loaded());
  for (const Json& one : golden_["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    rig.pool().zero(1);
    if (golden_.contains("time_state") && !golden_["time_state"].is_null()) {
      ASSERT_TRUE(rig.pool().set_initial(1, initial).ok());
    }
    const std::vector<int32_t> tokens = one["tokens"];
    std::vector<float> logits = rig.feed(1, tokens);
    EXPECT_LT(support::max_difference(logits, one["logits"].get<std::vector<double>>()), kLogitTolerance);
    check_states(rig, one["state"]);
    const std::vector<int32_t> continuation = one["greedy_next"];
    for (const int32_t wanted : continuation) {
      ASSERT_EQ(support::argmax(logits), wanted);
      logits = rig.feed(1, {wanted});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Golden,
                         testing::Values("tiny-rwkv7", "tiny-rwkv7-pth", "tiny-rwkv6", "synth-rwkv7",
                                         "synth-rwkv7-state", "synth-rwkv7a", "synth-rwkv6",
                                         "synth-rwkv6-state"));

}  // namespace
}  // namespace fulmar
