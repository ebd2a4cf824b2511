// Products of the feed-forward's value matrix, whose input is mostly zeros, in every format, against sums in
// double precision.
#include "cpu/linear_sparse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/cpu_ops.h"
#include "cpu/every_target.h"
#include "cpu/transposed.h"
#include "tensor/convert.h"
#include "tensor/quantise.h"

namespace fulmar {
namespace {

using support::for_each_target;

constexpr double kTolerance = 2e-6;  // of the root mean square of the result: f32 sums of some hundred terms
constexpr Quantisation kPlain[] = {{"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}};

std::vector<Quantisation> every_format() {
  std::vector<Quantisation> all(std::begin(kPlain), std::end(kPlain));
  all.insert(all.end(), all_quantisations().begin(), all_quantisations().end());
  return all;
}

// A value matrix [out, in] in host memory, as a backend imports it, and its numbers.
class ValueMatrix {
 public:
  ValueMatrix(const Quantisation& kind, int64_t out, int64_t in)
      : numbers_(static_cast<size_t>(out * in)), codes_(bytes_for(kind.dtype, out * in)) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (float& number : numbers_) number = normal(random);
    host_ = {.data = codes_.data(), .dtype = kind.dtype, .rows = out, .cols = in, .row_stride = in};
    if (is_kernel_float(kind.dtype)) {
      from_f32(numbers_, kind.dtype, codes_.data());
    } else {
      scales_.resize(static_cast<size_t>(out * scales_per_row(kind, in)));
      encode_rows(kind, numbers_, in, codes_.data(), scales_.data());
      if (!scales_.empty()) host_.scales = scales_.data();
      host_.group = group_of(kind, in);
    }
    rows_as_f32(host_, 0, numbers_);
  }

  const HostMatrix& host() const { return host_; }
  float at(int64_t output, int64_t k) const { return numbers_[static_cast<size_t>(output * host_.cols + k)]; }

 private:
  std::vector<float> numbers_;
  std::vector<std::byte> codes_;
  std::vector<float> scales_;
  HostMatrix host_;
};

// Inputs as relu² leaves them.
std::vector<float> inputs(int64_t count, double zeros, uint32_t seed = 5) {
  std::mt19937 random(seed);
  std::vector<float> made(static_cast<size_t>(count));
  std::uniform_real_distribution<float> size(0.1f, 2), dice(0, 1);
  for (float& x : made) x = static_cast<double>(dice(random)) < zeros ? 0 : size(random);
  return made;
}

std::vector<float> product(Ops& ops, const Weight& weight, std::vector<float> in, int64_t rows) {
  constexpr float kUntouched = -12345.5f;
  const int64_t stride = weight.out + 3;
  std::vector<float> out(static_cast<size_t>(rows * stride), kUntouched), dense;
  ops.linear({in.data(), DType::f32, rows, weight.in, weight.in}, weight,
             {out.data(), DType::f32, rows, weight.out, stride});
  for (int64_t r = 0; r < rows; r++) {
    const auto row = out.begin() + r * stride;
    dense.insert(dense.end(), row, row + weight.out);
    EXPECT_TRUE(std::all_of(row + weight.out, row + stride, [](float x) { return x == kUntouched; }));
  }
  return dense;
}

Weight imported(Ops& ops, const ValueMatrix& matrix) {
  const auto weight = ops.import_weight(matrix.host(), WeightRole::ffn_value);
  EXPECT_TRUE(weight.ok());
  return weight.value();
}

double normalised_error(const ValueMatrix& matrix, const std::vector<float>& in,
                        const std::vector<float>& out, int64_t rows) {
  const int64_t outs = matrix.host().rows, ins = matrix.host().cols;
  double error = 0, size = 0;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t o = 0; o < outs; o++) {
      double want = 0;
      for (int64_t k = 0; k < ins; k++) {
        want +=
            static_cast<double>(matrix.at(o, k)) * static_cast<double>(in[static_cast<size_t>(r * ins + k)]);
      }
      const double off = static_cast<double>(out[static_cast<size_t>(r * outs + o)]) - want;
      error += off * off;
      size += want * want;
    }
  }
  return size == 0 ? std::sqrt(error) : std::sqrt(error / size);
}

TEST(LinearSparse, EveryFormatAtEveryShareOfZeros) {
  struct Shape {
    int64_t rows, out, in;
    double zeros;
  };
  for_each_target([] {
    const auto ops = make_cpu_ops({.threads = 2});
    for (const Quantisation& kind : every_format()) {
      for (const Shape& s : {Shape{1, 130, 1280, 0.9},
                             {1, 64, 256, 0},
                             {3, 257, 2304, 0.5},
                             {1, 8, 256, 1},
                             {7, 128, 512, 0.95},
                             {21, 200, 1536, 0.9},
                             {40, 150, 512, 0.3},
                             {70, 300, 1280, 0.8},
                             {50, 136, 512, 0.2}}) {
        const ValueMatrix matrix(kind, s.out, s.in);
        const Weight weight = imported(*ops, matrix);
        EXPECT_EQ(weight.layout == WeightLayout::strips, multiplies_strips(kind.dtype)) << kind.name;
        const std::vector<float> in = inputs(s.rows * s.in, s.zeros);
        EXPECT_LE(normalised_error(matrix, in, product(*ops, weight, in, s.rows), s.rows), kTolerance)
            << kind.name << ", rows " << s.rows << ", out " << s.out << ", in " << s.in;
      }
    }
  });
}

TEST(LinearSparse, RowsThatAreNoWholeBlocksAreMultipliedAllTheSame) {
  const auto ops = make_cpu_ops({.threads = 2});
  for (const Quantisation& kind : {kPlain[1], *quantisation_named("int8"), *quantisation_named("q8_0")}) {
    const int64_t in = kind.dtype == DType::q8_0 ? 96 : 50;
    const ValueMatrix matrix(kind, 9, in);
    const std::vector<float> x = inputs(2 * in, 0.8);
    EXPECT_LE(normalised_error(matrix, x, product(*ops, imported(*ops, matrix), x, 2), 2), kTolerance)
        << kind.name;
  }
}

TEST(LinearSparse, ARowsBitsDoNotDependOnOthersInAFixedOrder) {
  constexpr int64_t kRows = 19, kOut = 133, kIn = 1280;
  for (const double zeros : {0.9, 0.2}) {
    const auto ops = make_cpu_ops({.threads = 2, .deterministic = true});
    for (const Quantisation& kind : every_format()) {
      if (strip_format(kind.dtype).block == 0) continue;
      const ValueMatrix matrix(kind, kOut, kIn);
      const Weight weight = imported(*ops, matrix);
      const std::vector<float> in = inputs(kRows * kIn, zeros);
      const std::vector<float> together = product(*ops, weight, in, kRows);
      for (int64_t r = 0; r < kRows; r++) {
        const std::vector<float> row(in.begin() + r * kIn, in.begin() + (r + 1) * kIn);
        const std::vector<float> alone = product(*ops, weight, row, 1);
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + r * kOut))
            << kind.name << ", row " << r;
      }
    }
  }
}

TEST(LinearSparse, WeightsThatMeetZerosAreNotRead) {
  const auto ops = make_cpu_ops({.threads = 1});
  constexpr int64_t kOut = 128, kIn = 64;
  std::vector<float> numbers(kOut * kIn, 1);
  for (int64_t o = 0; o < kOut; o++) numbers[static_cast<size_t>(o * kIn + 7)] = INFINITY;
  const HostMatrix host{.data = reinterpret_cast<const std::byte*>(numbers.data()),
                        .dtype = DType::f32,
                        .rows = kOut,
                        .cols = kIn,
                        .row_stride = kIn};
  const auto weight = ops->import_weight(host, WeightRole::ffn_value);
  ASSERT_TRUE(weight.ok());
  std::vector<float> in(kIn, 1);
  in[7] = 0;
  for (const float out : product(*ops, *weight, in, 1)) EXPECT_EQ(out, kIn - 1);
}

TEST(LinearSparse, NonFiniteInputsShowInTheirRowOnly) {
  for_each_target([] {
    const auto ops = make_cpu_ops({.threads = 2});
    const ValueMatrix matrix(*quantisation_named("q4_k"), 8, 512);
    const Weight weight = imported(*ops, matrix);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> in = inputs(2 * 512, 0.9);
      in[300] = bad;
      const std::vector<float> out = product(*ops, weight, in, 2);
      EXPECT_TRUE(std::none_of(out.begin(), out.begin() + 8, [](float x) { return std::isfinite(x); }))
          << bad;
      EXPECT_TRUE(std::all_of(out.begin() + 8, out.end(), [](float x) { return std::isfinite(x); })) << bad;
    }
  });
}

}  // namespace
}  // namespace fulmar
