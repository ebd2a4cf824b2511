// Interleaved matrices hold every byte of the stored ones where interleaved.h says.
#include "cpu/interleaved.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cpu/cpu_ops.h"
#include "tensor/format.h"

namespace fulmar {
namespace {

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

// Byte `at` of a block of one output, found in the interleaved block.
size_t place_of(const Format& format, int64_t at, int64_t output) {
  int64_t begin = at / 4 * 4, unit = 4;
  for (const int factor : format.factors) {
    if (factor < 0) continue;
    if (at == factor || at == factor + 1) return static_cast<size_t>(factor * 8 + output * 2 + (at - factor));
    if (factor < at) begin = factor + 2 + (at - factor - 2) / 4 * 4;
  }
  return static_cast<size_t>(begin * 8 + output * unit + (at - begin));
}

TEST(Interleaved, EveryByteOfEveryBlockIsInItsPlace) {
  constexpr int64_t kRows = 11, kCols = 512;
  for (const Format& format : kFormats) {
    if (format.block < 32) continue;
    const Stored from = stored(format.dtype, kRows, kCols);
    ASSERT_TRUE(can_interleave(from.matrix)) << format.name;
    std::vector<std::byte> to(interleaved_bytes(from.matrix));
    EXPECT_EQ(to.size(), bytes_for(format.dtype, 16 * kCols)) << format.name;
    interleave(from.matrix, to.data(), nullptr);
    const int64_t blocks = kCols / format.block;
    for (int64_t row = 0; row < 16; row++) {
      for (int64_t i = 0; i < blocks * format.bytes; i++) {
        const int64_t block = row / 8 * blocks + i / format.bytes;
        const size_t place =
            static_cast<size_t>(block * format.bytes * 8) + place_of(format, i % format.bytes, row % 8);
        const std::byte want =
            row < kRows ? from.codes[static_cast<size_t>(row * blocks * format.bytes + i)] : std::byte{0};
        ASSERT_EQ(to[place], want) << format.name << ", row " << row << ", byte " << i;
      }
    }
  }
}

TEST(Interleaved, ScalesBesideTheCodesLieByGroupAndOutput) {
  constexpr int64_t kRows = 10, kCols = 256, kGroup = 64, kGroups = kCols / kGroup;
  const Stored from = stored(DType::i8, kRows, kCols, kGroup);
  ASSERT_EQ(interleaved_scales(from.matrix), 16 * kGroups);
  std::vector<std::byte> codes(interleaved_bytes(from.matrix));
  std::vector<float> scales(16 * kGroups, -1);
  interleave(from.matrix, codes.data(), scales.data());
  for (int64_t row = 0; row < 16; row++) {
    for (int64_t g = 0; g < kGroups; g++) {
      const float want = row < kRows ? from.scales[static_cast<size_t>(row * kGroups + g)] : 0;
      EXPECT_EQ(scales[static_cast<size_t>((row / 8 * kGroups + g) * 8 + row % 8)], want) << row << " " << g;
    }
    for (int64_t k = 0; k < kCols; k++) {
      const auto place = static_cast<size_t>(row / 8 * 8 * kCols + k / 4 * 32 + row % 8 * 4 + k % 4);
      const std::byte want = row < kRows ? from.codes[static_cast<size_t>(row * kCols + k)] : std::byte{0};
      ASSERT_EQ(codes[place], want) << row << " " << k;
    }
  }
}

TEST(Interleaved, OnlyWholeBlocksAndGroupsAre) {
  EXPECT_FALSE(can_interleave(stored(DType::f16, 8, 64).matrix));
  EXPECT_FALSE(can_interleave(stored(DType::i8, 8, 48, 16).matrix));
  EXPECT_FALSE(can_interleave(stored(DType::i8, 8, 50, 50).matrix));
  HostMatrix turned = stored(DType::i8, 32, 32, 32).matrix;
  turned.row_stride = 1;
  turned.col_stride = 32;
  EXPECT_FALSE(can_interleave(turned));
}

TEST(Interleaved, ABackendImportsWhatItMultipliesAndLeavesEmbeddings) {
  const auto ops = make_cpu_ops({});
  const Stored from = stored(DType::q4_k, 8, 256);
  EXPECT_EQ(ops->import_bytes(from.matrix, WeightRole::projection), interleaved_bytes(from.matrix));
  const auto projection = ops->import_weight(from.matrix, WeightRole::projection);
  ASSERT_TRUE(projection.ok());
  EXPECT_EQ(projection->layout, WeightLayout::tiles);
  EXPECT_EQ(ops->import_bytes(from.matrix, WeightRole::embedding), 0u);
  const auto embedding = ops->import_weight(from.matrix, WeightRole::embedding);
  ASSERT_TRUE(embedding.ok());
  EXPECT_EQ(embedding->layout, WeightLayout::rows);
  EXPECT_EQ(embedding->data, from.matrix.data);
}

}  // namespace
}  // namespace fulmar
