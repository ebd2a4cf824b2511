// Transposed matrices hold every weight where transposed.h says.
#include "cpu/transposed.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cpu/cpu_ops.h"
#include "tensor/format.h"

namespace fulmar {
namespace {

constexpr int64_t kRows = 131, kCols = 512;

struct Stored {
  std::vector<std::byte> codes;
  std::vector<float> scales;
  HostMatrix matrix;
};

Stored stored(DType dtype, int64_t rows, int64_t cols, int64_t group = 0) {
  std::mt19937 random(1);
  Stored made;
  made.codes.resize(bytes_for(dtype, rows * cols));
  for (std::byte& byte : made.codes) byte = static_cast<std::byte>(random() & 0xff);
  if (group > 0) made.scales.resize(static_cast<size_t>(rows * cols / group));
  for (float& scale : made.scales) scale = static_cast<float>(random() % 1000);
  made.matrix = {.data = made.codes.data(),
                 .dtype = dtype,
                 .rows = rows,
                 .cols = cols,
                 .row_stride = cols,
                 .scales = group > 0 ? made.scales.data() : nullptr,
                 .group = group};
  return made;
}

struct Transposed {
  std::vector<std::byte> codes;
  std::vector<float> scales;

  explicit Transposed(const HostMatrix& matrix)
      : codes(transposed_bytes(matrix), std::byte{0xee}),
        scales(static_cast<size_t>(transposed_scales(matrix)), -1.0f) {
    transpose_strips(matrix, 0, strips_of(matrix.rows), codes.data(), scales.data());
  }
};

int code_at(const std::byte* row, bool nibbles, int64_t output) {
  const int64_t half = kStripOutputs / 2;
  if (!nibbles) return static_cast<int>(row[output]);
  const auto both = static_cast<int>(row[output % half]);
  return output < half ? both & 15 : both >> 4;
}

TEST(Transposed, PlainNumbersLieByInput) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Stored from = stored(dtype, kRows, kCols);
    ASSERT_TRUE(can_transpose(from.matrix));
    const Transposed to(from.matrix);
    const size_t size = size_of(dtype);
    ASSERT_EQ(to.codes.size(), 2 * kStripOutputs * kCols * size);
    for (int64_t o = 0; o < kRows; o++) {
      for (int64_t k = 0; k < kCols; k++) {
        const auto place =
            static_cast<size_t>((o / kStripOutputs * kCols + k) * kStripOutputs + o % kStripOutputs);
        ASSERT_EQ(std::memcmp(&to.codes[place * size], &from.codes[static_cast<size_t>(o * kCols + k) * size],
                              size),
                  0)
            << o << " " << k;
      }
    }
  }
}

TEST(Transposed, ColumnsOfTheHostAreTakenAsTheyLie) {
  Stored from = stored(DType::f16, 4, 8);
  from.matrix.row_stride = 1;
  from.matrix.col_stride = 4;
  const Transposed to(from.matrix);
  for (int64_t o = 0; o < 4; o++) {
    for (int64_t k = 0; k < 8; k++) {
      EXPECT_EQ(std::memcmp(&to.codes[static_cast<size_t>(2 * (k * kStripOutputs + o))],
                            &from.codes[static_cast<size_t>(2 * (k * 4 + o))], 2),
                0);
    }
  }
}

TEST(Transposed, CodesWithScalesBesideThem) {
  constexpr int64_t kGroup = 128, kGroups = kCols / kGroup;
  for (const DType dtype : {DType::i8, DType::f8_e4m3, DType::i4, DType::nf4}) {
    const Stored from = stored(dtype, kRows, kCols, kGroup);
    const Transposed to(from.matrix);
    const bool nibbles = format_of(dtype).block == 2;
    for (int64_t o = 0; o < kRows; o++) {
      const int64_t strip = o / kStripOutputs, output = o % kStripOutputs;
      for (int64_t k = 0; k < kCols; k++) {
        const std::byte* const row =
            &to.codes[static_cast<size_t>((strip * kCols + k) * strip_format(dtype).row_bytes)];
        const auto byte =
            static_cast<int>(from.codes[static_cast<size_t>(nibbles ? (o * kCols + k) / 2 : o * kCols + k)]);
        const bool is_high = dtype == DType::nf4 ? k % 2 == 0 : k % 2 == 1;
        int want = nibbles ? (is_high ? byte >> 4 : byte & 15) : byte;
        if (dtype == DType::i4) want ^= 8;
        ASSERT_EQ(code_at(row, nibbles, output), want) << name_of(dtype) << " " << o << " " << k;
      }
      for (int64_t g = 0; g < kGroups; g++) {
        EXPECT_EQ(to.scales[static_cast<size_t>((strip * kGroups + g) * kStripOutputs + output)],
                  from.scales[static_cast<size_t>(o * kGroups + g)]);
      }
    }
  }
}

// Blocks of 32: the scale and the minimum as stored, then rows of codes.
TEST(Transposed, BlocksOf32) {
  for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q4_1, DType::iq4_nl}) {
    const Stored from = stored(dtype, kRows, kCols);
    const Transposed to(from.matrix);
    const Format& format = format_of(dtype);
    const StripFormat strip = strip_format(dtype);
    const int64_t factors = strip.factor_bytes / (2 * kStripOutputs);
    EXPECT_EQ(to.codes.size(), bytes_for(dtype, 2 * kStripOutputs * kCols)) << "not a byte more";
    for (int64_t o = 0; o < kRows; o++) {
      for (int64_t b = 0; b < kCols / 32; b++) {
        const std::byte* const block = &from.codes[static_cast<size_t>((o * kCols / 32 + b) * format.bytes)];
        const std::byte* const at =
            &to.codes[static_cast<size_t>((o / kStripOutputs * kCols / 32 + b) * strip.block_bytes())];
        const int64_t output = o % kStripOutputs;
        for (int64_t f = 0; f < factors; f++) {
          EXPECT_EQ(std::memcmp(at + 2 * (f * kStripOutputs + output), block + 2 * f, 2), 0);
        }
        const std::byte* const codes = block + 2 * factors;
        for (int64_t i = 0; i < 32; i++) {
          int want = static_cast<int>(codes[i]);
          if (dtype != DType::q8_0)
            want = i < 16 ? static_cast<int>(codes[i]) & 15 : static_cast<int>(codes[i - 16]) >> 4;
          ASSERT_EQ(code_at(at + strip.factor_bytes + i * strip.row_bytes, dtype != DType::q8_0, output),
                    want)
              << name_of(dtype) << " " << o << " " << b << " " << i;
        }
      }
    }
  }
}

TEST(Transposed, OnlyWholeBlocksOfFormatsThatLieInStripsAre) {
  EXPECT_FALSE(can_transpose(stored(DType::q3_k, 8, 256).matrix));
  EXPECT_FALSE(can_transpose(stored(DType::i64, 8, 256).matrix));
  EXPECT_FALSE(can_transpose(stored(DType::f16, 8, 50).matrix));
  EXPECT_FALSE(can_transpose(stored(DType::i8, 8, 64).matrix)) << "without scales";
  EXPECT_TRUE(can_transpose(stored(DType::i8, 8, 48, 48).matrix));
}

TEST(Transposed, ABackendTransposesTheValueMatrixAlone) {
  const auto ops = make_cpu_ops({});
  const Stored from = stored(DType::f16, 128, 256);
  EXPECT_EQ(ops->import_bytes(from.matrix, WeightRole::ffn_value), transposed_bytes(from.matrix));
  const auto value = ops->import_weight(from.matrix, WeightRole::ffn_value);
  const auto key = ops->import_weight(from.matrix, WeightRole::ffn_key);
  ASSERT_TRUE(value.ok() && key.ok());
  EXPECT_EQ(value->layout, WeightLayout::strips);
  EXPECT_NE(key->layout, WeightLayout::strips);
  EXPECT_EQ(key->data, from.matrix.data) << "borrowed";
}

}  // namespace
}  // namespace fulmar
