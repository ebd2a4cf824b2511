// Products with weights in formats that no kernel of ours multiplies: decoded on the device, against the
// reference decoder and f64 sums.
#include <cmath>

#include "gpu/gpu_device.h"
#include "support/ops_rig.h"
#include "tensor/quantise.h"

namespace fulmar {
namespace {

using support::Doubles;

struct Encoded {
  std::vector<std::byte> codes;
  std::vector<float> scales;
  HostMatrix matrix;
  Doubles values;  // [out, in], as the reference decodes them
};

Encoded encoded(const Quantisation& by, int64_t out, int64_t in) {
  std::vector<float> numbers(static_cast<size_t>(out * in));
  for (size_t i = 0; i < numbers.size(); i++) {
    numbers[i] = static_cast<float>((i * 2654435761u >> 8 & 0xffff) / 32768.0 - 1.0) * 0.05f;
  }
  Encoded made;
  made.codes.resize(bytes_for(by.dtype, out * in));
  made.scales.resize(static_cast<size_t>(out * scales_per_row(by, in)));
  encode_rows(by, numbers, in, made.codes.data(), made.scales.data());
  made.matrix = {made.codes.data(), by.dtype, out, in, in, 1};
  if (!made.scales.empty()) {
    made.matrix.scales = made.scales.data();
    made.matrix.group = group_of(by, in);
  }
  const Weight host{by.dtype, out, in, made.codes.data(), false, made.matrix.scales, made.matrix.group};
  std::vector<float> row(static_cast<size_t>(in));
  for (int64_t o = 0; o < out; o++) {
    decode_row(host, o, row);
    made.values.insert(made.values.end(), row.begin(), row.end());
  }
  return made;
}

class GpuDequantise : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    auto opened = open_test_gpu({.keep_codes = true});
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    ops_ = std::move(opened).value();
  }
  Ops& ops() { return *ops_; }

 private:
  std::unique_ptr<Ops> ops_;
};

TEST_P(GpuDequantise, ProductsAreThoseOfTheReferenceDecodersNumbers) {
  const auto by = quantisation_named(GetParam());
  ASSERT_TRUE(by.has_value());
  constexpr int64_t kOut = 136, kIn = 256;
  const Encoded weight = encoded(*by, kOut, kIn);
  support::OpsRig rig(ops(), 4);
  auto imported = ops().import_weight(weight.matrix, WeightRole::projection);
  ASSERT_TRUE(imported.ok()) << imported.error().text;
  EXPECT_EQ(imported->dtype, by->dtype) << "kept as stored";
  for (const int64_t rows : {1, 3, 8, 33, 100}) {
    for (const DType to : {DType::f16, DType::f32}) {
      const support::Made in = rig.tensor(rows, kIn);
      const Tensor out = rig.empty(rows, kOut, to);
      ops().linear(in.tensor, *imported, out);
      Doubles want;
      for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < kOut; o++) {
          double sum = 0;
          for (int64_t i = 0; i < kIn; i++)
            sum += in.at(r, i) * weight.values[static_cast<size_t>(o * kIn + i)];
          want.push_back(sum);
        }
      }
      support::expect_close(rig.read(out), want, DType::f16, std::to_string(rows) + " rows");
    }
  }
}

// More than one piece of decoded weights.
TEST_P(GpuDequantise, LargeMatricesAreDecodedPieceByPiece) {
  const auto by = quantisation_named(GetParam());
  ASSERT_TRUE(by.has_value());
  constexpr int64_t kOut = 9000, kIn = 2048, kRows = 2;
  const Encoded weight = encoded(*by, kOut, kIn);
  support::OpsRig rig(ops(), 4);
  auto imported = ops().import_weight(weight.matrix, WeightRole::head);
  ASSERT_TRUE(imported.ok()) << imported.error().text;
  const support::Made in = rig.tensor(kRows, kIn);
  const Tensor out = rig.empty(kRows, kOut, DType::f32);
  ops().linear(in.tensor, *imported, out);
  const Doubles got = rig.read(out);
  for (const int64_t o : {0, 8191, 8192, 8999}) {
    double sum = 0, size = 0;
    for (int64_t i = 0; i < kIn; i++) {
      const double product = in.at(1, i) * weight.values[static_cast<size_t>(o * kIn + i)];
      sum += product, size += product * product;
    }
    EXPECT_NEAR(got[static_cast<size_t>(kOut + o)], sum, 5e-3 * std::sqrt(size)) << "output " << o;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GpuDequantise, testing::Values("q8_0", "int8"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace fulmar
