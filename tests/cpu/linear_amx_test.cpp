// Products by AMX against sums in double precision, and what their bits may depend on.
#include "cpu/linear_amx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "cpu/linear.h"
#include "cpu/linear_way.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

// Inputs of 8 (bf16), 16 or all bits, the rest in f32.
double tolerance(CodedActivations activations) {
  if (activations == CodedActivations::bits8) return 3e-3;
  return activations == CodedActivations::bits15 ? 6e-6 : 2e-6;
}
constexpr float kUntouched = -12345.5f;

// A product with strides wider than its rows and weights off every alignment.
class AmxProduct {
 public:
  AmxProduct(DType dtype, int64_t rows, int64_t in, int64_t out)
      : rows_(rows), in_stride_(in + 3), out_stride_(out + 5) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    values_.resize(static_cast<size_t>(in * out));
    for (float& value : values_) value = normal(random);
    stored_.resize(values_.size() * 2 + 1);
    from_f32(values_, dtype, stored_.data() + 1);
    to_f32(dtype, stored_.data() + 1, values_);
    weight_ = {.dtype = dtype, .out = out, .in = in, .data = stored_.data() + 1};
    in_.resize(static_cast<size_t>(rows * in_stride_));
    for (float& value : in_) value = normal(random);
  }

  float& in_at(int64_t row, int64_t k) { return in_[static_cast<size_t>(row * in_stride_ + k)]; }

  // The first `rows` rows, with so many threads; [rows, out_stride].
  std::vector<float> run(int64_t rows, CodedActivations activations, int threads = 2) {
    ThreadPool pool(threads);
    std::vector<float> out(static_cast<size_t>(rows * out_stride_), kUntouched);
    const LinearMode mode{.activations = activations, .has_amx = true};
    linear(pool, {in_.data(), DType::f32, rows, weight_.in, in_stride_}, weight_,
           {out.data(), DType::f32, rows, weight_.out, out_stride_}, mode);
    return out;
  }

  double normalised_error(const std::vector<float>& out) const {
    double error = 0, size = 0;
    for (int64_t r = 0; r < rows_; r++) {
      for (int64_t o = 0; o < weight_.out; o++) {
        double sum = 0;
        for (int64_t k = 0; k < weight_.in; k++) {
          sum += static_cast<double>(values_[static_cast<size_t>(o * weight_.in + k)]) *
                 static_cast<double>(in_[static_cast<size_t>(r * in_stride_ + k)]);
        }
        const double off = sum - out[static_cast<size_t>(r * out_stride_ + o)];
        error += off * off, size += sum * sum;
      }
    }
    return std::sqrt(error / size);
  }

  bool gaps_untouched(const std::vector<float>& out) const {
    for (size_t i = 0; i < out.size(); i++) {
      const auto column = static_cast<int64_t>(i) % out_stride_;
      if (column >= weight_.out && out[i] != kUntouched) return false;
    }
    return true;
  }

  int64_t out_stride() const { return out_stride_; }

 private:
  int64_t rows_, in_stride_, out_stride_;
  std::vector<float> values_;
  std::vector<std::byte> stored_;
  Weight weight_;
  std::vector<float> in_;
};

class LinearAmx : public testing::TestWithParam<std::tuple<DType, CodedActivations>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  CodedActivations activations() const { return std::get<1>(GetParam()); }
  void SetUp() override {
    if (!has_amx()) GTEST_SKIP() << "this processor has no AMX for bf16";
  }
};

TEST_P(LinearAmx, AgreesWithSumsInDoublePrecision) {
  for (const int64_t in : {32, 96, 256, 288, 4128}) {
    for (const int64_t out : {1, 16, 17, 33, 100}) {
      for (const int64_t rows : {33, 48, 49, 64, 193}) {
        AmxProduct product(dtype(), rows, in, out);
        const std::vector<float> found = product.run(rows, activations());
        EXPECT_LE(product.normalised_error(found), tolerance(activations()))
            << rows << " rows, " << in << " x " << out;
        EXPECT_TRUE(product.gaps_untouched(found)) << rows << " rows, " << in << " x " << out;
      }
    }
  }
}

TEST_P(LinearAmx, ARowsBitsDependNeitherOnOtherRowsNorOnThreads) {
  AmxProduct product(dtype(), 600, 320, 70);
  const std::vector<float> all = product.run(600, activations());
  for (const int64_t rows : {33, 50, 191, 577}) {
    std::vector<float> some = product.run(rows, activations(), 1);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << rows;
  }
}

TEST_P(LinearAmx, WhatIsNotFiniteStaysInItsRow) {
  constexpr int64_t kRows = 40, kIn = 64, kOut = 20, kWhere = 17;
  AmxProduct product(dtype(), kRows, kIn, kOut);
  const std::vector<float> before = product.run(kRows, activations());
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    product.in_at(kWhere, 5) = bad;
    const std::vector<float> after = product.run(kRows, activations());
    for (int64_t r = 0; r < kRows; r++) {
      for (int64_t o = 0; o < kOut; o++) {
        const auto at = static_cast<size_t>(r * product.out_stride() + o);
        EXPECT_EQ(r == kWhere, !std::isfinite(after[at])) << r << ", " << o;
        if (r != kWhere) {
          EXPECT_EQ(after[at], before[at]);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LinearAmx,
                         testing::Combine(testing::Values(DType::f16, DType::bf16),
                                          testing::Values(CodedActivations::bits8, CodedActivations::bits15,
                                                          CodedActivations::bits22)),
                         [](const auto& param) {
                           return std::string(name_of(std::get<0>(param.param))) + "_in_" +
                                  std::to_string(static_cast<int>(std::get<1>(param.param)));
                         });

TEST(LinearAmxShapes, WholeTilesOfSixteenBitFloats) {
  const auto suits = [](DType dtype, int64_t depth) {
    return suits_amx({.dtype = dtype, .out = 8, .in = depth});
  };
  EXPECT_TRUE(suits(DType::f16, 64));
  EXPECT_TRUE(suits(DType::bf16, 4096));
  EXPECT_FALSE(suits(DType::f16, 48));
  EXPECT_FALSE(suits(DType::f32, 64));
  EXPECT_FALSE(suits(DType::q8_0, 64));
  for (const int64_t depth : {32, 1024, 4096, 16384, 1'000'000}) {
    for (const int parts : {1, 2, 3}) {
      EXPECT_GE(amx_block_rows(depth, parts), kAmxRowTile) << depth;
      EXPECT_LE(amx_block_rows(depth, parts), kPanelRows) << depth;
      EXPECT_EQ(amx_block_rows(depth, parts) % kAmxRowTile, 0) << depth;
    }
  }
}

}  // namespace
}  // namespace fulmar
