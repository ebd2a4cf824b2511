// Stored GGUF models of every block kind against a double-precision reference on their decoded weights.
#include <gtest/gtest.h>

#include "cpu/cpu_ops.h"
#include "support/golden.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::Json;
using support::ModelRig;

constexpr double kRelative = 1e-4;    // of an engine that computes in f32
constexpr double kRelative15 = 1e-3;  // with activations of 15 bits, a fifth of what 16-bit engines may
constexpr double kRelative8 = 2e-1;   // with 8 bits

class GgufModel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    golden_ = support::read_golden(std::string("gguf-") + GetParam());
    if (golden_.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
    checkpoint_ = support::stored_gguf(golden_);
    ASSERT_NE(checkpoint_, nullptr);
  }

  // The logits that the golden file compares: its first ones.
  double error(const std::vector<float>& got, const Json& one) const {
    const std::vector<double> want = one["exact"]["logits"];
    return support::relative_error({got.begin(), got.begin() + static_cast<ptrdiff_t>(want.size())}, want);
  }

  Json golden_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_P(GgufModel, LogitsAreThoseOfTheDecodedWeights) {
  const auto ops = make_cpu_ops({.threads = 2});
  ModelRig rig(std::move(checkpoint_), *ops, 2);
  ASSERT_TRUE(rig.loaded());
  ASSERT_FALSE(golden_["cases"].empty());
  for (const Json& one : golden_["cases"]) {
    const std::vector<int32_t> tokens = one["tokens"];
    rig.pool().zero(0);
    rig.pool().zero(1);
    const std::vector<float> at_once = rig.feed(0, tokens), in_parts = rig.feed(1, tokens, 3);
    EXPECT_LE(error(at_once, one), kRelative) << one["name"];
    EXPECT_LE(error(in_parts, one), kRelative) << one["name"] << ", three tokens at a time";
    EXPECT_EQ(support::argmax(at_once), one["argmax"].get<int32_t>()) << one["name"];
  }
}

// A token at a time, and all at once: rows beyond some number meet decoded weights unless there are 8 bits.
TEST_P(GgufModel, ShortActivationsStayNear) {
  for (const int bits : {15, 8}) {
    const auto ops = make_cpu_ops({.threads = 2, .activation_bits = bits});
    ModelRig rig(support::stored_gguf(golden_), *ops, 2);
    ASSERT_TRUE(rig.loaded());
    for (const Json& one : golden_["cases"]) {
      rig.pool().zero(0);
      rig.pool().zero(1);
      for (const std::vector<float>& logits : {rig.feed(0, one["tokens"], 1), rig.feed(1, one["tokens"])}) {
        EXPECT_LE(error(logits, one), bits == 15 ? kRelative15 : kRelative8)
            << one["name"] << ", bits " << bits;
        if (bits == 15) {
          EXPECT_EQ(support::argmax(logits), one["argmax"].get<int32_t>()) << one["name"];
        }
      }
    }
  }
}

TEST_P(GgufModel, MatricesAreNotInflated) {
  const auto ops = make_cpu_ops({.threads = 1});
  size_t file = 0;
  for (const StoredTensor& tensor : checkpoint_->tensors()) file += tensor.bytes();
  ModelRig rig(std::move(checkpoint_), *ops, 1);
  ASSERT_TRUE(rig.loaded());
  EXPECT_LT(rig.model().memory().weights, file);
}

INSTANTIATE_TEST_SUITE_P(Stored, GgufModel, testing::ValuesIn(support::kStoredGguf),
                         [](const auto& test) { return support::parameter_name(test.param); });

}  // namespace
}  // namespace fulmar
