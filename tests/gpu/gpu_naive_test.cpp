// Products without the GEMM library against those by it: every kind that the library serves, at sizes that
// are no multiple of a tile.
#include <numeric>

#include "files/synthetic.h"
#include "gpu/gpu_device.h"
#include "support/model_rig.h"
#include "support/ops_rig.h"

namespace fulmar {
namespace {

using support::Doubles;
using support::OpsRig;

constexpr double kSums = 1e-5;  // of f32 in another order, by matrix units that do not round to nearest

class GpuPlainProducts : public GpuTest, public testing::WithParamInterface<DType> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (under_racecheck()) GTEST_SKIP() << "the library is not to be touched";
    by_library_ = open(false);
    plain_ = open(true);
  }

  static std::unique_ptr<Ops> open(bool plain) {
    auto opened = open_gpu({.activation = GetParam(), .plain_products = plain});
    EXPECT_TRUE(opened.ok());
    return opened.ok() ? std::move(opened).value() : nullptr;
  }

  std::unique_ptr<Ops> by_library_, plain_;
};

// The inputs are the middle of wider rows, and so is the output.
Doubles product(Ops& ops, int64_t rows, int64_t in, int64_t out, bool transposed, DType to) {
  constexpr int64_t kMargin = 8;
  OpsRig rig(ops, 3);
  const Tensor wide_in = rig.tensor(rows, in + 2 * kMargin).tensor;
  const WeightRole role = transposed ? WeightRole::low_rank : WeightRole::projection;
  const Weight weight = rig.weight(out, in, DType::f16, role, transposed).weight;
  const Tensor wide_out = rig.tensor(rows, out + 2 * kMargin, to, -1, 1).tensor;
  const auto middle = [&](const Tensor& of, int64_t cols) {
    auto* data = static_cast<std::byte*>(of.data) + kMargin * static_cast<int64_t>(size_of(of.dtype));
    return Tensor{data, of.dtype, of.rows, cols, of.stride};
  };
  ops.linear(middle(wide_in, in), weight, middle(wide_out, out));
  return rig.read(wide_out);
}

TEST_P(GpuPlainProducts, AreTheLibrarys) {
  for (const int64_t rows : {9, 64, 130}) {
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{72, 40}, {1000, 264}, {64, 64}}) {
      for (const bool transposed : {false, true}) {
        for (const DType to : {GetParam(), DType::f32}) {
          const std::string name = std::to_string(rows) + " rows, " + std::to_string(in) + " to " +
                                   std::to_string(out) + (transposed ? " transposed, " : ", ") +
                                   std::string(name_of(to));
          support::expect_close(product(*plain_, rows, in, out, transposed, to),
                                product(*by_library_, rows, in, out, transposed, to),
                                to == DType::f32 ? kSums : support::tolerance_of(to), name);
        }
      }
    }
  }
}

TEST_P(GpuPlainProducts, GiveTheLibrarysLogits) {
  SyntheticSpec spec{.n_layer = 2, .n_head = 4, .head_size = 64, .vocab = 256};
  spec.n_ffn = 1024;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = 32;
  spec.dtype = DType::f16;
  support::ModelRig want(synthetic_checkpoint(spec), *by_library_, 2),
      got(synthetic_checkpoint(spec), *plain_, 2);
  ASSERT_TRUE(want.loaded() && got.loaded());
  std::vector<int32_t> prompt(100);
  std::iota(prompt.begin(), prompt.end(), 1);
  const auto numbers = [](const std::vector<float>& logits) { return Doubles(logits.begin(), logits.end()); };
  support::expect_close(numbers(got.feed(1, prompt)), numbers(want.feed(1, prompt)), 0.05, "prompt");
  support::expect_close(numbers(got.feed(1, {7})), numbers(want.feed(1, {7})), 0.05, "next token");
}

INSTANTIATE_TEST_SUITE_P(Types, GpuPlainProducts, testing::Values(DType::f16, DType::bf16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace fulmar
