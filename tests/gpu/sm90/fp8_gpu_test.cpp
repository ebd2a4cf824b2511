// Products of E4M3 by E4M3: codes of inputs against the host's, products against sums over what the codes
// stand for, from the row that goes by packed rows to several pieces of inputs.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/sm90/fp8_inputs.h"
#include "gpu/random_codes.h"
#include "gpu/sm90/sm90_device.h"
#include "support/ops_rig.h"
#include "tensor/scaled_codes.h"

namespace fulmar {
namespace {

using support::Doubles;

constexpr float kLargest = 448.0f;

// A row as E4M3 with its scale.
struct CodedRow {
  std::vector<uint8_t> codes;
  float scale = 0;

  explicit CodedRow(const std::vector<float>& row) {
    float most = 0;
    for (const float x : row) most = std::max(most, std::abs(x));
    const float by = most > 0 ? kLargest / most : 0.0f;
    scale = most / kLargest;
    for (const float x : row) codes.push_back(f32_to_f8_e4m3(x * by));
  }
  double value(size_t i) const {
    return static_cast<double>(f8_e4m3_to_f32(codes[i])) * static_cast<double>(scale);
  }
};

CodedRow coded_row(const support::Made& in, int64_t row, bool relu_squared = false) {
  std::vector<float> values;
  for (int64_t k = 0; k < in.tensor.cols; k++) {
    const auto x = static_cast<float>(in.at(row, k));
    values.push_back(!relu_squared ? x : x > 0 ? x * x : 0.0f);
  }
  return CodedRow(values);
}

class GpuFloat8 : public Sm90Test {
 protected:
  void SetUp() override {
    prepare(1, 1);
    if (IsSkipped()) return;
    auto opened = open_test_gpu({.float8_inputs = true});
    if (without_matrix_units() || std::getenv("FULMAR_NO_PANELS") != nullptr) {
      ASSERT_FALSE(opened.ok());
      GTEST_SKIP() << opened.error().text;
    }
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    ops_ = std::move(opened).value();
  }
  Ops& ops() { return *ops_; }

  std::unique_ptr<Ops> ops_;
};

class GpuFloat8Inputs : public GpuFloat8, public testing::WithParamInterface<std::pair<int64_t, int64_t>> {};

TEST_P(GpuFloat8Inputs, AreTheCodesThatTheHostFinds) {
  const auto [rows, cols] = GetParam();
  for (const auto& [dtype, relu_squared] :
       {std::pair{DType::f16, false}, {DType::bf16, false}, {DType::f16, true}}) {
    support::OpsRig rig(ops(), 3);
    const support::Made in = rig.sparse_tensor(rows, cols, dtype, -30, 30, 0.3);
    const Tensor zeros = in.tensor.slice_rows(rows - 1, 1);
    const std::vector<std::byte> none(static_cast<size_t>(cols) * 2);
    ops().write(zeros.data, none.data(), none.size());
    const Tensor codes = rig.empty(rows, cols, DType::f8_e4m3), scales = rig.empty(1, rows, DType::f32);
    ops().synchronise();
    const gpu::Float8Input input[] = {{in.tensor, codes, scales.as<float>(), relu_squared}};
    gpu::quantise_inputs({}, input);
    FULMAR_GPU(cudaDeviceSynchronize());
    std::vector<uint8_t> found(static_cast<size_t>(rows * cols));
    std::vector<float> found_scales(static_cast<size_t>(rows));
    ops().read(found.data(), codes.data, found.size());
    ops().read(found_scales.data(), scales.data, found_scales.size() * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
      const CodedRow want = r == rows - 1 ? CodedRow(std::vector<float>(static_cast<size_t>(cols)))
                                          : coded_row(in, r, relu_squared);
      EXPECT_EQ(found_scales[static_cast<size_t>(r)], want.scale) << r;
      const auto at = found.begin() + static_cast<std::ptrdiff_t>(r * cols);
      EXPECT_TRUE(std::equal(want.codes.begin(), want.codes.end(), at)) << "row " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuFloat8Inputs,
                         testing::Values(std::pair<int64_t, int64_t>{2, 16},
                                         std::pair<int64_t, int64_t>{3, 4096},
                                         std::pair<int64_t, int64_t>{7, 4112},
                                         std::pair<int64_t, int64_t>{2, 16384},
                                         std::pair<int64_t, int64_t>{2, 32768}));

struct Shape {
  int64_t rows, out, in;
};

class GpuFloat8Products : public GpuFloat8, public testing::WithParamInterface<Shape> {
 protected:
  void expect_agreement(Ops& ops, DType to);
};

// By panels or the library, and without the library.
TEST_P(GpuFloat8Products, AgreeWithSumsOverWhatTheCodesStandFor) {
  auto without_library = open_test_gpu({.float8_inputs = true, .plain_products = true});
  ASSERT_TRUE(without_library.ok()) << without_library.error().text;
  for (const DType to : {DType::f16, DType::f32}) {
    expect_agreement(ops(), to);
    if (GetParam().rows > gpu::kMostWgmmaFp8Rows) expect_agreement(**without_library, to);
  }
}

// Up to eight rows keep their inputs, where the matrix has whole pieces.
void GpuFloat8Products::expect_agreement(Ops& ops, DType to) {
  const auto [rows, out, in] = GetParam();
  const RandomCodes random(*quantisation_named("fp8"), out, in);
  support::OpsRig rig(ops, 4);
  const support::Made inputs = rig.tensor(rows, in, DType::f16, -1, 1);
  const Tensor result = rig.empty(rows, out, to);
  const auto weight = ops.import_weight(random.matrix, WeightRole::projection);
  ASSERT_TRUE(weight.ok()) << weight.error().text;
  ASSERT_TRUE(gpu::is_float8_rows(*weight));
  ops.linear(inputs.tensor, *weight, result);
  std::vector<float> matrix(static_cast<size_t>(out * in));
  rows_as_f32(random.matrix, 0, matrix);
  const bool coded = rows > 8 || in % gpu::kPackedInputs != 0;
  Doubles want;
  for (int64_t r = 0; r < rows; r++) {
    const CodedRow codes = coded_row(inputs, r);
    for (int64_t o = 0; o < out; o++) {
      double sum = 0;
      for (int64_t k = 0; k < in; k++) {
        const double x = coded ? codes.value(static_cast<size_t>(k)) : inputs.at(r, k);
        sum += x * static_cast<double>(matrix[static_cast<size_t>(o * in + k)]);
      }
      want.push_back(sum);
    }
  }
  support::expect_close(rig.read(result), want, 2e-3, std::to_string(rows));
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuFloat8Products,
                         testing::Values(Shape{1, 64, 128}, Shape{1, 4096, 1024}, Shape{2, 272, 512},
                                         Shape{5, 48, 1152}, Shape{8, 256, 512}, Shape{3, 32, 80},
                                         Shape{9, 256, 512}, Shape{33, 96, 1024}, Shape{320, 128, 256},
                                         Shape{161, 4096, 512}, Shape{64, 256, 16384}, Shape{1030, 272, 512},
                                         Shape{2100, 16, 16384}),
                         [](const auto& one) {
                           return std::to_string(one.param.rows) + "x" + std::to_string(one.param.out) + "x" +
                                  std::to_string(one.param.in);
                         });

TEST_F(GpuFloat8, TheHeadAndOtherFormatsStayAsTheyAre) {
  const RandomCodes float8(*quantisation_named("fp8"), 256, 512),
      bytes(*quantisation_named("int8"), 256, 512);
  const auto head = ops().import_weight(float8.matrix, WeightRole::head),
             key = ops().import_weight(float8.matrix, WeightRole::ffn_key),
             other = ops().import_weight(bytes.matrix, WeightRole::ffn_key);
  ASSERT_TRUE(head.ok() && key.ok() && other.ok());
  EXPECT_TRUE(gpu::is_packed(*head));
  EXPECT_TRUE(gpu::is_float8_rows(*key) && !gpu::is_packed(*key));
  EXPECT_TRUE(gpu::is_packed(*other));
}

TEST_F(GpuFloat8, IsRefusedWhereItsKernelsTakeNoPart) {
  for (const DeviceOptions& options : {DeviceOptions{.float8_inputs = true, .panels = false},
                                       DeviceOptions{.float8_inputs = true, .matrix_units = false},
                                       DeviceOptions{.float8_inputs = true, .deterministic = true}}) {
    const auto opened = open_gpu(options);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().kind, ErrorKind::unsupported) << opened.error().text;
  }
}

}  // namespace
}  // namespace fulmar
