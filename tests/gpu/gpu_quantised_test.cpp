// Whole models with quantised weights on the GPU: stored files against exact logits, made-up ones against the
// CPU on their decoded weights, in steps of so many rows that every way of products is taken.
#include <algorithm>
#include <cstdio>

#include "cpu/cpu_ops.h"
#include "files/synthetic.h"
#include "gpu/gpu_device.h"
#include "support/golden.h"
#include "support/model_rig.h"
#include "tensor/quantise.h"

namespace fulmar {
namespace {

using support::Json;
using support::ModelRig;
using support::relative_error;

// Root mean square, relative to the deviation of the logits. The reversing model carries sixty digits.
constexpr double kMostError = 5e-3, kMostErrorOfReverse = 1e-2, kMostErrorOfMadeUp = 1e-2;

class GpuGguf : public GpuTest, public testing::WithParamInterface<const char*> {};

TEST_P(GpuGguf, LogitsAreThoseOfTheDecodedWeights) {
  const Json golden = support::read_golden(std::string("gguf-") + GetParam());
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  std::unique_ptr<Checkpoint> checkpoint = support::stored_gguf(golden);
  ASSERT_NE(checkpoint, nullptr);
  const bool reverse = std::string(GetParam()).find("reverse") != std::string::npos;
  ModelRig rig(std::move(checkpoint), gpu(), 2);
  ASSERT_TRUE(rig.loaded());
  ASSERT_FALSE(golden["cases"].empty());
  for (const Json& one : golden["cases"]) {
    const std::vector<int32_t> tokens = one["tokens"];
    const std::vector<double> want = one["exact"]["logits"];
    rig.pool().zero(0);
    rig.pool().zero(1);
    for (const int64_t slot : {0, 1}) {
      // At once, and token by token.
      const std::vector<float> got = slot == 0 ? rig.feed(0, tokens) : rig.feed(1, tokens, 1);
      const std::vector<float> compared(got.begin(), got.begin() + static_cast<ptrdiff_t>(want.size()));
      const double error = relative_error(compared, want);
      std::printf("%s %s: error %.2e\n", GetParam(), slot == 0 ? "at once" : "by token", error);
      const double most = reverse ? kMostErrorOfReverse : kMostError;
      EXPECT_LE(error, without_matrix_units() ? 1.5 * most : most) << one["name"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stored, GpuGguf, testing::ValuesIn(support::kStoredGguf),
                         [](const auto& test) { return support::parameter_name(test.param); });

SyntheticSpec spec_of(int version, std::string_view kind, int64_t heads = 8, int64_t n_ffn = 0) {
  SyntheticSpec spec;
  spec.version = version;
  spec.n_layer = 2;
  spec.n_head = heads;
  spec.head_size = 64;
  spec.vocab = 1028;
  spec.rank_w = spec.rank_a = 64;
  spec.rank_v = 32;
  spec.rank_g = 128;
  spec.rank_mix = 32;
  spec.rank_decay = 64;
  spec.n_ffn = n_ffn > 0 ? n_ffn : heads * 256;
  spec.dtype = DType::f16;
  spec.ffn_zeros = 0.8;
  spec.quantisation = quantisation_named(kind);
  return spec;
}

// The same numbers in f32.
std::unique_ptr<Checkpoint> decoded(std::unique_ptr<Checkpoint> from) {
  CheckpointParts parts;
  for (const StoredTensor& tensor : from->tensors()) {
    auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(tensor.count()));
    copy_as_f32(tensor, *values);
    parts.tensors.push_back({tensor.name, DType::f32, tensor.shape, row_major_strides(tensor.shape),
                             reinterpret_cast<const std::byte*>(values->data())});
    parts.owners.push_back(values);
  }
  return make_checkpoint(std::move(parts));
}

using Logits = std::vector<std::vector<float>>;

// Steps of many rows, of some and of one, each going on where the one before ended.
Logits steps_of(ModelRig& rig) {
  Logits all;
  for (int64_t slot = 0; slot < 12; slot++) rig.pool().zero(slot);
  const auto run = [&](int64_t sequences, int64_t tokens) {
    std::vector<support::Feed> feeds;
    for (int64_t s = 0; s < sequences; s++) {
      feeds.push_back({s, {}});
      for (int64_t t = 0; t < tokens; t++) {
        feeds.back().tokens.push_back(static_cast<int32_t>((s * 37 + t * 101 + sequences) % 1028));
      }
    }
    for (auto& logits : rig.step(feeds)) all.push_back(std::move(logits));
  };
  run(2, 70);
  run(12, 7);
  run(12, 3);
  run(12, 1);
  run(5, 1);
  run(2, 1);
  for (int i = 0; i < 3; i++) run(1, 1);
  return all;
}

class GpuQuantised : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  void expect_agreement(int version, Ops& ops, double most, int64_t heads = 8, int64_t n_ffn = 0) {
    const SyntheticSpec spec = spec_of(version, GetParam(), heads, n_ffn);
    ASSERT_TRUE(spec.quantisation.has_value());
    const std::unique_ptr<Ops> cpu = make_cpu_ops({.threads = 0});
    ModelRig want(decoded(synthetic_checkpoint(spec)), *cpu, 12), got(synthetic_checkpoint(spec), ops, 12);
    ASSERT_TRUE(want.loaded() && got.loaded());
    const Logits expected = steps_of(want), found = steps_of(got);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); i++) {
      EXPECT_LT(relative_error(found[i], expected[i]), most) << "row " << i;
    }
    EXPECT_EQ(steps_of(got), found) << "the same steps give the same bits";
  }
};

TEST_P(GpuQuantised, Rwkv7AgreesWithTheCpuInStepsOfAllSizes) {
  expect_agreement(7, gpu(), kMostErrorOfMadeUp);
}

// Rows of 128: one piece of packed codes, and no block of 256.
TEST_P(GpuQuantised, NarrowRwkv7AgreesWithTheCpuInStepsOfAllSizes) {
  expect_agreement(7, gpu(), kMostErrorOfMadeUp, 2);
}

// Several groups of hidden channels for each block of a feed-forward of few rows, more than it takes at once.
TEST_P(GpuQuantised, LongFeedForwardsAgreeWithTheCpuInStepsOfAllSizes) {
  expect_agreement(7, gpu(), kMostErrorOfMadeUp, 4, 21504);
}

TEST_P(GpuQuantised, Rwkv6AgreesWithTheCpuInStepsOfAllSizes) {
  expect_agreement(6, gpu(), kMostErrorOfMadeUp);
}

TEST_P(GpuQuantised, Bf16AgreesWithTheCpuInStepsOfAllSizes) {
  auto bf16 = open_test_gpu({.activation = DType::bf16});
  ASSERT_TRUE(bf16.ok()) << bf16.error().text;
  expect_agreement(7, **bf16, 5e-2);
}

// Low-rank products run beside those of codes: nobody may see what is not there yet.
TEST_P(GpuQuantised, StepsOfSomeRowsGiveTheSameBitsEveryTime) {
  constexpr int64_t kSequences = 40, kHeads = 16;
  ModelRig rig(synthetic_checkpoint(spec_of(7, GetParam(), kHeads)), gpu(), kSequences);
  ASSERT_TRUE(rig.loaded());
  const auto steps = [&] {
    Logits all;
    for (int64_t slot = 0; slot < kSequences; slot++) rig.pool().zero(slot);
    for (int32_t step = 0; step < 3; step++) {
      std::vector<support::Feed> feeds;
      for (int64_t s = 0; s < kSequences; s++) feeds.push_back({s, {static_cast<int32_t>(s * 25 + step)}});
      for (auto& logits : rig.step(feeds)) all.push_back(std::move(logits));
    }
    return all;
  };
  const Logits first = steps();
  for (int again = 0; again < (under_racecheck() ? 1 : 12); again++) ASSERT_EQ(steps(), first) << again;
}

TEST_P(GpuQuantised, WeightsTakeTheBytesOfTheirCodes) {
  SyntheticSpec spec = spec_of(7, GetParam());
  size_t stored = 0;
  const auto checkpoint = synthetic_checkpoint(spec);
  for (const StoredTensor& tensor : checkpoint->tensors()) {
    stored += tensor.bytes();
    if (tensor.scales != nullptr)
      stored += static_cast<size_t>(tensor.count() / tensor.group) * sizeof(float);
  }
  ModelRig rig(synthetic_checkpoint(spec), gpu(), 1);
  ASSERT_TRUE(rig.loaded());
  // Vectors become f32, and q4_k's scales whole bytes.
  EXPECT_LT(rig.model().memory().weights, stored + stored / 20);
}

// Inputs have three bits of mantissa then, from nine rows on.
class GpuFloat8Steps : public GpuQuantised {
 protected:
  void expect_agreement_of(int version) {
    auto float8 = open_test_gpu({.float8_inputs = true});
    if (!float8.ok()) GTEST_SKIP() << float8.error().text;
    expect_agreement(version, **float8, 8e-2);
  }
};

TEST_P(GpuFloat8Steps, Rwkv7AgreesWithTheCpuInStepsOfAllSizes) { expect_agreement_of(7); }
TEST_P(GpuFloat8Steps, Rwkv6AgreesWithTheCpuInStepsOfAllSizes) { expect_agreement_of(6); }

INSTANTIATE_TEST_SUITE_P(Kinds, GpuFloat8Steps, testing::Values("fp8"),
                         [](const auto& one) { return one.param; });

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const Quantisation& one : all_quantisations()) names.emplace_back(one.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuQuantised, testing::ValuesIn(kinds()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace fulmar
