// Products of one to eight rows without matrix units against the same rows among sixteen, which go another
// way, at sizes that are no multiple of what a block takes. The value matrix is kept as the others are.
#include "gpu/gpu_device.h"
#include "support/ops_rig.h"

namespace fulmar {
namespace {

using support::Doubles;
using support::OpsRig;

constexpr double kSums = 1e-5;  // of f32 in another order
constexpr int64_t kManyRows = 16;

class GpuDotProducts : public GpuTest, public testing::WithParamInterface<DType> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    auto opened = open_gpu({.activation = GetParam(), .plain_products = true, .matrix_units = false});
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    ops_ = std::move(opened).value();
  }

  // The first rows of `in` by the weight, on the middle of wider rows.
  static Doubles product(OpsRig& rig, Tensor in, int64_t rows, const Weight& weight, DType to) {
    constexpr int64_t kMargin = 8;
    const Tensor wide = rig.tensor(rows, weight.out + 2 * kMargin, to, -1, -1).tensor;
    auto* data = static_cast<std::byte*>(wide.data) + kMargin * static_cast<int64_t>(size_of(to));
    rig.ops().linear({in.data, in.dtype, rows, in.cols, in.stride}, weight,
                     {data, to, rows, weight.out, wide.stride});
    return rig.read(wide);
  }

  void expect_equal_products(int64_t in, int64_t out, WeightRole role, double zeros, DType to) {
    OpsRig rig(*ops_, 5);
    const Tensor x = rig.sparse_tensor(kManyRows, in, GetParam(), -1, 1, zeros).tensor;
    const Weight weight = rig.weight(out, in, GetParam(), role).weight;
    EXPECT_FALSE(weight.by_input());
    const Doubles all = product(rig, x, kManyRows, weight, to);
    for (int64_t rows = 1; rows <= 8; rows++) {
      const auto size = static_cast<std::ptrdiff_t>(all.size()) / kManyRows * rows;
      support::expect_close(
          product(rig, x, rows, weight, to), Doubles(all.begin(), all.begin() + size),
          to == DType::f32 ? kSums : support::tolerance_of(to),
          std::to_string(rows) + " rows, " + std::to_string(in) + " to " + std::to_string(out));
    }
  }

  std::unique_ptr<Ops> ops_;
};

TEST_P(GpuDotProducts, OfAnyInputs) {
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{8, 1}, {72, 40}, {1000, 263}, {4096, 96}}) {
    for (const DType to : {GetParam(), DType::f32}) {
      expect_equal_products(in, out, WeightRole::projection, 0, to);
    }
  }
}

TEST_P(GpuDotProducts, OfInputsThatAreMostlyZero) {
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{512, 128}, {3072, 384}, {8192, 640}}) {
    for (const double zeros : {0.0, 0.9, 1.0}) {
      expect_equal_products(in, out, WeightRole::ffn_value, zeros, GetParam());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuDotProducts, testing::Values(DType::f16, DType::bf16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace fulmar
