// Decoders of quantised weights on the device, bit by bit: more rows than kernels take from the codes
// themselves have a matrix decoded to 16 bits, and rows of the identity hand its numbers on as they are.
#include <cstring>

#include "gpu/gpu_device.h"
#include "support/ops_rig.h"
#include "tensor/convert.h"
#include "tensor/quantise.h"

namespace fulmar {
namespace {

using support::Doubles;

// Any bytes at all as codes, with scales of a usual size.
struct RandomMatrix {
  std::vector<std::byte> codes;
  std::vector<float> scales;
  HostMatrix matrix;

  RandomMatrix(const Quantisation& by, int64_t out, int64_t in) {
    const Format& format = format_of(by.dtype);
    codes.resize(bytes_for(by.dtype, out * in));
    for (std::byte& one : codes) one = static_cast<std::byte>(next() >> 24);
    if (by.dtype == DType::f8_e4m3) {
      for (std::byte& one : codes) {
        if ((one & std::byte{0x7f}) == std::byte{0x7f}) one = std::byte{0x7e};  // NaN means nothing here
      }
    }
    for (size_t block = 0; is_block(by.dtype) && block < codes.size();
         block += static_cast<size_t>(format.bytes)) {
      for (const int at : format.factors) {
        if (at < 0) continue;
        const uint16_t bits = f32_to_f16(number() * 0.01f);
        std::memcpy(codes.data() + block + at, &bits, sizeof(bits));
      }
    }
    scales.resize(static_cast<size_t>(out * scales_per_row(by, in)));
    for (float& one : scales) one = number() * 0.01f;
    matrix = {codes.data(), by.dtype, out, in, in, 1};
    if (!scales.empty()) matrix.scales = scales.data(), matrix.group = group_of(by, in);
  }

 private:
  uint32_t next() { return state_ = state_ * 1664525u + 1013904223u; }
  float number() { return static_cast<float>(next() >> 8) * 0x1p-23f - 1.0f; }
  uint32_t state_ = 5;
};

class GpuDequantise : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
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
    Doubles identity(static_cast<size_t>(matrix.cols * matrix.cols));
    for (int64_t i = 0; i < matrix.cols; i++) identity[static_cast<size_t>(i * matrix.cols + i)] = 1;
    const Tensor in = rig.tensor_of(identity, matrix.cols, matrix.cols, DType::f16).tensor;
    const Tensor out = rig.empty(matrix.cols, matrix.rows, DType::f32);
    gpu().linear(in, *imported, out);
    const Doubles got = rig.read(out);
    Doubles turned(got.size());
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
    const RandomMatrix random(*by, out, in);
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
