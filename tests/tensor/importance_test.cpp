// Quantisation by importance: errors count less than without, in every block of every type.
#include "tensor/importance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <random>
#include <vector>

namespace fulmar {

static void PrintTo(const Quantisation& q, std::ostream* out) { *out << q.name; }

namespace {

constexpr int64_t kRows = 24, kCols = 512;

struct Coded {
  std::vector<std::byte> codes;
  std::vector<float> scales, values;
};

// Encodes by `importance`, or without where it is empty, and decodes.
Coded coded(const Quantisation& q, std::span<const float> matrix, std::span<const float> importance) {
  const auto rows = matrix.size() / kCols, row_scales = static_cast<size_t>(scales_per_row(q, kCols));
  const size_t bytes = bytes_for(q.dtype, kCols);
  Coded made;
  made.codes.resize(rows * bytes);
  made.scales.resize(rows * row_scales);
  made.values.resize(matrix.size());
  float* const scales = row_scales == 0 ? nullptr : made.scales.data();
  if (importance.empty()) {
    encode_rows(q, matrix, kCols, made.codes.data(), scales);
  } else {
    encode_rows(q, matrix, importance, made.codes.data(), scales);
  }
  for (size_t row = 0; row < rows; row++) {
    decode_row(q.dtype, &made.codes[row * bytes], scales == nullptr ? nullptr : scales + row * row_scales,
               group_of(q, kCols), std::span(made.values).subspan(row * kCols, kCols));
  }
  return made;
}

// Of each block or group: its squared errors as they count.
std::vector<double> errors_of(const Quantisation& q, const Coded& made, std::span<const float> matrix,
                              std::span<const float> importance) {
  const auto group = static_cast<size_t>(group_of(q, kCols));
  const size_t unit = group == 0 ? static_cast<size_t>(format_of(q.dtype).block) : group;
  std::vector<double> errors;
  for (size_t first = 0; first < matrix.size(); first += unit) {
    double squares = 0, error = 0;
    for (size_t i = first; i < first + unit; i++) squares += std::pow(static_cast<double>(matrix[i]), 2);
    for (size_t i = first; i < first + unit; i++) {
      const auto x = static_cast<double>(matrix[i]), off = static_cast<double>(made.values[i]) - x;
      const double counts = std::sqrt(squares / static_cast<double>(unit) + x * x);
      error += static_cast<double>(importance[i % kCols]) * counts * off * off;
    }
    errors.push_back(error);
  }
  return errors;
}

class ByImportance : public testing::TestWithParam<Quantisation> {
 protected:
  ByImportance() : matrix_(kRows * kCols), importance_(kCols) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (float& x : matrix_) x = normal(random);
    // A few inputs are much larger than the others, as those of trained models are.
    for (float& w : importance_) w = std::exp(2 * normal(random));
    importance_[3] = 0;
    for (int i = 0; i < 256; i++) matrix_[i] = std::abs(matrix_[i]) + 1;  // no minimum at or below zero
    matrix_[700] = 1e6f;  // beyond f16 as a minimum or a largest weight, not as a scale
  }

  std::vector<float> matrix_, importance_;
};

TEST_P(ByImportance, NoBlockIsWorseAndFewBitsAreBetter) {
  const Quantisation q = GetParam();
  const auto before = errors_of(q, coded(q, matrix_, {}), matrix_, importance_);
  const auto after = errors_of(q, coded(q, matrix_, importance_), matrix_, importance_);
  double sum_before = 0, sum_after = 0;
  for (size_t i = 0; i < before.size(); i++) {
    if (std::isnan(before[i])) continue;  // the weight beyond f16
    EXPECT_LE(after[i], before[i] * 1.0001) << q.name << ", block " << i;
    sum_before += before[i] > 1e6 ? 0 : before[i];
    sum_after += before[i] > 1e6 ? 0 : after[i];
  }
  const bool few_bits = bytes_for(q.dtype, kCols) * 8 <= 5 * kCols;
  EXPECT_LT(sum_after, (few_bits ? 0.95 : 1.0001) * sum_before) << q.name;
}

TEST_P(ByImportance, FormatsThatDoNotGainAreAsWithout) {
  const Quantisation q = GetParam();
  const bool same = coded(q, matrix_, importance_).codes == coded(q, matrix_, {}).codes;
  EXPECT_EQ(same, !gains_by_importance(q.dtype)) << q.name;
}

TEST_P(ByImportance, RowsDoNotDependOnEachOther) {
  const Quantisation q = GetParam();
  const Coded all = coded(q, matrix_, importance_);
  const Coded last = coded(q, std::span(matrix_).last(kCols), importance_);
  EXPECT_EQ(last.values, std::vector<float>(all.values.end() - kCols, all.values.end())) << q.name;
}

TEST_P(ByImportance, ZerosStayZerosAndNothingMayCount) {
  const Quantisation q = GetParam();
  const std::vector<float> zeros(kCols), none(kCols);
  EXPECT_EQ(coded(q, zeros, importance_).values, zeros) << q.name;
  const auto last = std::span(matrix_).last(kCols);
  EXPECT_EQ(coded(q, last, none).values, coded(q, last, {}).values) << q.name;
}

INSTANTIATE_TEST_SUITE_P(EveryType, ByImportance,
                         testing::ValuesIn(all_quantisations().begin(), all_quantisations().end()),
                         [](const auto& type) { return std::string(type.param.name); });

}  // namespace
}  // namespace fulmar
