// Which rows and formats go which way.
#include "cpu/linear_way.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

Weight weight_of(DType dtype, int64_t in, int64_t group = 0) {
  static constexpr float kScales[1] = {1};  // never read
  return {.dtype = dtype, .out = 8, .in = in, .scales = is_scaled(dtype) ? kScales : nullptr, .group = group};
}

TEST(LinearWay, PlainNumbersAreNeverCoded) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    EXPECT_EQ(linear_way(1, weight_of(dtype, 1024)), LinearWay::dot);
    EXPECT_EQ(linear_way(kMostDotRows, weight_of(dtype, 1024)), LinearWay::dot);
    EXPECT_EQ(linear_way(kMostDotRows + 1, weight_of(dtype, 1024)), LinearWay::panels);
  }
}

TEST(LinearWay, BlocksAreMultipliedFromTheirCodesForFewRows) {
  for (const Format& format : kFormats) {
    if (!is_block(format.dtype)) continue;
    const Weight weight = weight_of(format.dtype, 1024);
    EXPECT_EQ(linear_way(1, weight), LinearWay::coded) << format.name;
    EXPECT_EQ(linear_way(kMostCodedRows, weight), LinearWay::coded) << format.name;
    EXPECT_EQ(linear_way(kMostCodedRows + 1, weight), LinearWay::dot) << format.name;
    EXPECT_EQ(linear_way(kMostDotRows + 1, weight), LinearWay::panels) << format.name;
  }
}

TEST(LinearWay, CodesWithScalesBesideThemNeedGroupsOfWholeShares) {
  for (DType dtype : {DType::i8, DType::i4}) {
    EXPECT_EQ(linear_way(1, weight_of(dtype, 1024, 128)), LinearWay::coded);
    EXPECT_EQ(linear_way(1, weight_of(dtype, 1024, 1024)), LinearWay::coded);
    EXPECT_EQ(linear_way(1, weight_of(dtype, 48, 16)), LinearWay::dot);
    EXPECT_EQ(linear_way(1, weight_of(dtype, 50, 50)), LinearWay::dot);
  }
}

TEST(LinearWay, CodesThatAreNoWholeNumbersAreDecoded) {
  EXPECT_EQ(linear_way(1, weight_of(DType::nf4, 1024, 64)), LinearWay::dot);
  EXPECT_EQ(linear_way(1, weight_of(DType::f8_e4m3, 1024, 1024)), LinearWay::dot);
}

TEST(LinearWay, AFixedOrderKnowsNoRows) {
  for (const Format& format : kFormats) {
    const Weight weight = weight_of(format.dtype, 1024, is_scaled(format.dtype) ? 1024 : 0);
    for (const int64_t rows : {int64_t{1}, kMostCodedRows, kMostDotRows, kMostDotRows + 1, int64_t{1000}}) {
      EXPECT_EQ(linear_way(rows, weight, LinearOrder::fixed), LinearWay::dot) << format.name;
    }
  }
}

}  // namespace
}  // namespace fulmar
