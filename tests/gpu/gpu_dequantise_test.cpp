// Decoders of quantised weights on the device, bit by bit: more rows than kernels take from the codes
// themselves have a matrix decoded to 16 bits, and rows of the identity hand its numbers on as they are.
#include <algorithm>

#include "gpu/gpu_device.h"
#include "gpu/random_codes.h"
#include "support/ops_rig.h"
#include "tensor/convert.h"
#include "tensor/quantise.h"

namespace fulmar {
namespace {

using support::Doubles;

constexpr int64_t kLeastRows = 336;  // for which matrices are decoded where there are no panels

class GpuDequantise : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    auto opened = open_test_gpu({.panels = false});
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    without_panels_ = std::move(opened).value();
  }
  Ops& gpu() { return *without_panels_; }

  // [out, in] as the device decodes it.
  Doubles decoded(const HostMatrix& matrix, WeightRole role) {
    support::OpsRig rig(gpu(), 4);
    const auto imported = gpu().import_weight(matrix, role);
    if (!imported.ok()) {
      ADD_FAILURE() << imported.error().text;
      return {};
    }
    EXPECT_EQ(imported->dtype, matrix.dtype) << "codes are kept";
    EXPECT_LT(gpu().import_bytes(matrix, role), static_cast<size_t>(matrix.rows * matrix.cols) * 3 / 2);
    const int64_t rows = std::max(matrix.cols, kLeastRows);
    Doubles identity(static_cast<size_t>(rows * matrix.cols));
    for (int64_t i = 0; i < matrix.cols; i++) identity[static_cast<size_t>(i * matrix.cols + i)] = 1;
    const Tensor in = rig.tensor_of(identity, rows, matrix.cols, DType::f16).tensor;
    const Tensor out = rig.empty(rows, matrix.rows, DType::f32);
    gpu().linear(in, *imported, out);
    const Doubles got = rig.read(out);
    Doubles turned(static_cast<size_t>(matrix.rows * matrix.cols));
    for (int64_t r = 0; r < matrix.rows; r++) {
      for (int64_t c = 0; c < matrix.cols; c++) {
        turned[static_cast<size_t>(r * matrix.cols + c)] = got[static_cast<size_t>(c * matrix.rows + r)];
      }
    }
    return turned;
  }

  void expect_bits(WeightRole role, int64_t out, int64_t in) {
    const auto by = quantisation_named(GetParam());
    ASSERT_TRUE(by && suits(*by, in));
    const RandomCodes random(*by, out, in);
    std::vector<float> want(static_cast<size_t>(out * in));
    rows_as_f32(random.matrix, 0, want);
    const Doubles got = decoded(random.matrix, role);
    ASSERT_EQ(got.size(), want.size());
    int64_t differ = 0;
    for (size_t i = 0; i < want.size(); i++) {
      const auto rounded = static_cast<double>(f16_to_f32(f32_to_f16(want[i])));
      if (got[i] == rounded) continue;
      if (differ++ < 3) {
        ADD_FAILURE() << "weight " << i % static_cast<size_t>(in) << " of row " << i / static_cast<size_t>(in)
                      << ": " << got[i] << "; wanted " << rounded;
      }
    }
    EXPECT_EQ(differ, 0);
  }

 private:
  std::unique_ptr<Ops> without_panels_;
};

TEST_P(GpuDequantise, GivesTheBitsOfTheReferenceDecoder) { expect_bits(WeightRole::projection, 72, 256); }

TEST_P(GpuDequantise, GivesThemForMatricesWhoseZeroInputsAreSkipped) {
  expect_bits(WeightRole::ffn_value, 128, 512);
}

// More than one piece of decoded weights.
TEST_P(GpuDequantise, GivesThemPieceByPiece) { expect_bits(WeightRole::head, 66000, 256); }

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const Quantisation& one : all_quantisations()) names.emplace_back(one.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuDequantise, testing::ValuesIn(kinds()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace fulmar
