// Which rows and formats go which way.
#include "cpu/linear_way.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

Weight weight_of(DType dtype, WeightLayout layout = WeightLayout::rows) {
  return {.dtype = dtype, .out = 8, .in = 1024, .layout = layout};
}

TEST(LinearWay, WhatIsNotInterleavedIsNeverCoded) {
  for (const Format& format : kFormats) {
    EXPECT_EQ(linear_way(1, weight_of(format.dtype)), LinearWay::dot);
    EXPECT_EQ(linear_way(kMostDotRows, weight_of(format.dtype)), LinearWay::dot);
    EXPECT_EQ(linear_way(kMostDotRows + 1, weight_of(format.dtype)), LinearWay::panels);
  }
}

TEST(LinearWay, CodesAreMultipliedForAsManyRowsAsThatIsQuicker) {
  for (const auto activations : {CodedActivations::bits22, CodedActivations::bits15}) {
    const LinearMode mode{.activations = activations};
    const Weight weight = weight_of(DType::q4_k, WeightLayout::tiles);
    EXPECT_EQ(linear_way(1, weight, mode), LinearWay::coded);
    EXPECT_EQ(linear_way(most_coded_rows(mode), weight, mode), LinearWay::coded);
    EXPECT_EQ(linear_way(most_coded_rows(mode) + 1, weight, mode), LinearWay::decoded);
    EXPECT_EQ(linear_way(kMostDotRows + 1, weight, mode), LinearWay::decoded);
  }
}

TEST(LinearWay, CodesMeetEightBitsInAnyNumber) {
  const LinearMode mode{.activations = CodedActivations::bits8};
  EXPECT_EQ(linear_way(1'000'000, weight_of(DType::q8_0, WeightLayout::tiles), mode), LinearWay::coded);
}

TEST(LinearWay, CodesMeetAnyNumberOfRowsWhereProductsOfBytesAreQuick) {
  for (const auto activations :
       {CodedActivations::bits22, CodedActivations::bits15, CodedActivations::bits8}) {
    const LinearMode mode{.activations = activations, .has_vnni = true};
    EXPECT_EQ(linear_way(1'000'000, weight_of(DType::q8_0, WeightLayout::tiles), mode), LinearWay::coded);
    EXPECT_EQ(linear_way(1'000'000, weight_of(DType::q8_0), mode), LinearWay::panels);
  }
}

TEST(LinearWay, AFixedOrderKnowsNoRows) {
  const LinearMode mode{.order = LinearOrder::fixed};
  for (const Format& format : kFormats) {
    for (const int64_t rows : {int64_t{1}, int64_t{6}, kMostDotRows, kMostDotRows + 1, int64_t{1000}}) {
      EXPECT_EQ(linear_way(rows, weight_of(format.dtype), mode), LinearWay::dot) << format.name;
      EXPECT_EQ(linear_way(rows, weight_of(format.dtype, WeightLayout::tiles), mode), LinearWay::coded)
          << format.name;
    }
  }
}

TEST(LinearWay, TransposedWeightsOfManyRowsAndFewZerosAreDecoded) {
  const Weight weight{.dtype = DType::q4_0, .out = 8, .in = 1024, .layout = WeightLayout::strips};
  EXPECT_EQ(linear_way(1, weight, {}, 0), LinearWay::sparse) << "fewer bytes, whatever their share";
  EXPECT_EQ(linear_way(1000, weight, {}, 0.95), LinearWay::sparse);
  EXPECT_EQ(linear_way(1000, weight, {}, 0.3), LinearWay::decoded);
  EXPECT_EQ(linear_way(1000, weight, {.order = LinearOrder::fixed}, 0.3), LinearWay::sparse);
}

TEST(LinearWay, AmxTakesFewerRowsOfSixteenBitsAndDenseTransposedOnes) {
  const LinearMode amx{.activations = CodedActivations::bits15, .has_amx = true};
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Weight weight = weight_of(dtype);
    const int64_t most = most_dot_rows(weight, amx);
    EXPECT_LT(most, kMostDotRows);
    EXPECT_EQ(linear_way(most, weight, amx), LinearWay::dot);
    EXPECT_EQ(linear_way(most + 1, weight, amx), LinearWay::panels);
    const Weight strips{.dtype = dtype, .out = 8, .in = 1024, .layout = WeightLayout::strips};
    EXPECT_EQ(linear_way(1000, strips, amx, 0.3), LinearWay::panels);
    EXPECT_EQ(linear_way(1000, strips, amx, 0.95), LinearWay::sparse);
    EXPECT_EQ(linear_way(1000, strips, {}, 0.3), LinearWay::decoded);
    EXPECT_EQ(linear_way(1000, strips, {.order = LinearOrder::fixed, .has_amx = true}, 0.3),
              LinearWay::sparse);
  }
  EXPECT_EQ(most_dot_rows(weight_of(DType::f32), amx), kMostDotRows);
  EXPECT_EQ(most_dot_rows(weight_of(DType::f16), {.has_amx = true}), kMostDotRows) << "five products";
}

}  // namespace
}  // namespace fulmar
