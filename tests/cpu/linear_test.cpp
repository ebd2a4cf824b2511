// Every path of linear against sums in double precision, by normalised error.
#include "cpu/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cpu/every_target.h"
#include "cpu/interleaved.h"
#include "cpu/linear_way.h"
#include "tensor/convert.h"
#include "tensor/quantise.h"

namespace fulmar {
namespace {

using support::for_each_target;

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
// f32 sums of 1000 terms stay within this share of the root mean square of the result.
constexpr double kTolerance = 2e-6;
// One product with its data, its strides wider than its rows and its weights off every alignment.
class Product {
 public:
  Product(DType dtype, int64_t rows, int64_t in, int64_t out, uint32_t seed = 1)
      : rows_(rows), in_stride_(in + 3), out_stride_(out + 5) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(in * out));
    for (float& value : values) value = normal(random);
    stored_.resize(values.size() * size_of(dtype) + 1);
    from_f32(values, dtype, stored_.data() + 1);
    weight_ = {.dtype = dtype, .out = out, .in = in, .data = stored_.data() + 1};
    in_.resize(static_cast<size_t>(rows * in_stride_));
    for (float& value : in_) value = normal(random);
    out_.assign(static_cast<size_t>(rows * out_stride_), kUntouched);
  }

  LinearTask task() { return {in_tensor(), &weight_, out_tensor()}; }
  void run(ThreadPool& pool) { linear(pool, in_tensor(), weight_, out_tensor()); }

  float out_at(int64_t row, int64_t o) const { return out_[static_cast<size_t>(row * out_stride_ + o)]; }

  // Root mean square of the error over that of the result.
  double normalised_error() const {
    std::vector<float> w(static_cast<size_t>(weight_.in * weight_.out));
    to_f32(weight_.dtype, weight_.data, w);
    double error = 0, size = 0;
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t o = 0; o < weight_.out; ++o) {
        double sum = 0;
        for (int64_t k = 0; k < weight_.in; ++k) {
          sum += static_cast<double>(w[static_cast<size_t>(o * weight_.in + k)]) *
                 static_cast<double>(in_[static_cast<size_t>(r * in_stride_ + k)]);
        }
        error += (sum - out_at(r, o)) * (sum - out_at(r, o));
        size += sum * sum;
      }
    }
    return std::sqrt(error / size);
  }

  bool gaps_untouched() const {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t o = weight_.out; o < out_stride_; ++o) {
        if (out_at(r, o) != kUntouched) return false;
      }
    }
    return true;
  }

 private:
  static constexpr float kUntouched = -12345.5f;

  Tensor in_tensor() { return {in_.data(), DType::f32, rows_, weight_.in, in_stride_}; }
  Tensor out_tensor() { return {out_.data(), DType::f32, rows_, weight_.out, out_stride_}; }

  int64_t rows_, in_stride_, out_stride_;
  std::vector<std::byte> stored_;
  Weight weight_;
  std::vector<float> in_, out_;
};

void expect_right(ThreadPool& pool, DType dtype, int64_t rows, int64_t in, int64_t out) {
  Product product(dtype, rows, in, out);
  product.run(pool);
  const std::string what = std::string(name_of(dtype)) + ", rows " + std::to_string(rows) + ", in " +
                           std::to_string(in) + ", out " + std::to_string(out);
  EXPECT_LE(product.normalised_error(), kTolerance) << what;
  EXPECT_TRUE(product.gaps_untouched()) << what;
}

// Quantised weights against the reference decoder and sums in double.
class CodedProduct {
 public:
  CodedProduct(const Quantisation& quantisation, int64_t rows, int64_t in, int64_t out)
      : rows_(rows), codes_(bytes_for(quantisation.dtype, in * out) + 1) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(in * out));
    for (float& value : values) value = normal(random);
    scales_.resize(static_cast<size_t>(out * scales_per_row(quantisation, in)));
    encode_rows(quantisation, values, in, codes_.data() + 1, scales_.data());
    weight_ = {quantisation.dtype,
               out,
               in,
               codes_.data() + 1,
               WeightLayout::rows,
               scales_.empty() ? nullptr : scales_.data(),
               group_of(quantisation, in)};
    in_.resize(static_cast<size_t>(rows * in));
    for (float& value : in_) value = normal(random);
  }

  // Codes of every kind, as a file may hold them: only the blocks' own scales stay as they are.
  void scramble() {
    std::mt19937 random(2);
    replace_codes([&] { return random() % 4 == 0 ? 0x80 : random() & 0xff; });
  }

  // Every byte of codes the same, activations as large as they get, of one sign: whole numbers whose lower
  // digits are the largest, too, but for one of each share.
  void largest(unsigned code, float sign, CodedActivations activations) {
    replace_codes([&] { return code; });
    const auto most = static_cast<float>(127 << 7 * (static_cast<int>(activations) - 1));
    const bool one_digit = activations == CodedActivations::bits8;
    for (size_t k = 0; k < in_.size(); ++k)
      in_[k] = sign * (k % 16 == 0 || one_digit ? 1 : (most - 1) / most);
    round_to(activations);
  }

  float& in_at(int64_t row, int64_t k) { return in_[static_cast<size_t>(row * weight_.in + k)]; }

  void round_to(CodedActivations activations) { activations_ = activations; }
  const Weight& weight() const { return weight_; }

  // The outputs of rows [first, first + count).
  std::vector<float> outputs(ThreadPool& pool, int64_t first, int64_t count,
                             LinearOrder order = LinearOrder::quickest) {
    std::vector<float> out(static_cast<size_t>(count * weight_.out));
    const Weight weight = as_imported();
    const LinearTask task{{&in_at(first, 0), DType::f32, count, weight_.in, weight_.in},
                          &weight,
                          {out.data(), DType::f32, count, weight_.out, weight_.out}};
    linear_many(pool, {&task, 1}, {order, activations_});
    return out;
  }

  // The weights in the order in which they are multiplied.
  Weight as_imported() {
    const HostMatrix matrix{.data = codes_.data() + 1,
                            .dtype = weight_.dtype,
                            .rows = weight_.out,
                            .cols = weight_.in,
                            .row_stride = weight_.in,
                            .scales = weight_.scales,
                            .group = weight_.group};
    if (!multiplies_codes(weight_.dtype) || !can_interleave(matrix)) return weight_;
    interleaved_.resize(interleaved_bytes(matrix) + 1);
    interleaved_scales_.resize(static_cast<size_t>(interleaved_scales(matrix)));
    interleave(matrix, interleaved_.data() + 1, interleaved_scales_.data());
    Weight weight = weight_;
    weight.data = interleaved_.data() + 1;
    weight.layout = WeightLayout::tiles;
    if (weight.scales != nullptr) weight.scales = interleaved_scales_.data();
    return weight;
  }

  double normalised_error(ThreadPool& pool, LinearOrder order = LinearOrder::quickest) {
    std::vector<float> row(static_cast<size_t>(weight_.in));
    const std::vector<float> out = outputs(pool, 0, rows_, order);
    double error = 0, size = 0;
    for (int64_t o = 0; o < weight_.out; ++o) {
      decode_row(weight_, o, row);
      for (int64_t r = 0; r < rows_; ++r) {
        double want = 0;
        for (int64_t k = 0; k < weight_.in; ++k) {
          want += static_cast<double>(row[static_cast<size_t>(k)]) *
                  static_cast<double>(in_[static_cast<size_t>(r * weight_.in + k)]);
        }
        const double off = static_cast<double>(out[static_cast<size_t>(r * weight_.out + o)]) - want;
        error += off * off;
        size += want * want;
      }
    }
    return std::sqrt(error / size);
  }

 private:
  template <class Code>
  void replace_codes(Code code) {
    const Format& format = format_of(weight_.dtype);
    for (size_t i = 1; i < codes_.size(); ++i) {
      const auto at = static_cast<int>((i - 1) % static_cast<size_t>(format.bytes));
      const auto belongs = [&](int factor) { return factor >= 0 && (at == factor || at == factor + 1); };
      if (belongs(format.factors[0]) || belongs(format.factors[1])) continue;
      codes_[i] = static_cast<std::byte>(code());
    }
  }

  int64_t rows_;
  CodedActivations activations_ = CodedActivations::bits22;
  std::vector<std::byte> codes_;  // off every alignment
  std::vector<std::byte> interleaved_;
  std::vector<float> scales_, interleaved_scales_, in_;
  Weight weight_;
};

TEST(Linear, EveryQuantisationMatchesItsDecoder) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (const Quantisation& quantisation : all_quantisations()) {
      for (const auto [rows, in, out] : {std::array<int64_t, 3>{1, 256, 7},
                                         {1, 2304, 33},
                                         {5, 1280, 18},
                                         {32, 512, 5},
                                         {40, 768, 50},
                                         {200, 256, 101}}) {
        EXPECT_LE(CodedProduct(quantisation, rows, in, out).normalised_error(pool), kTolerance)
            << quantisation.name << ", rows " << rows << ", in " << in << ", out " << out;
      }
      if (!suits(quantisation, 544)) continue;
      EXPECT_LE(CodedProduct(quantisation, 2, 544, 6).normalised_error(pool), kTolerance)
          << quantisation.name;
    }
    EXPECT_LE(CodedProduct(*quantisation_named("q8_0"), 3, 96, 9).normalised_error(pool), kTolerance);
    EXPECT_LE(CodedProduct(*quantisation_named("int8"), 3, 50, 9).normalised_error(pool), kTolerance);
  });
}

TEST(Linear, EveryCodeOfEveryQuantisation) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (const Quantisation& quantisation : all_quantisations()) {
      if (quantisation.dtype == DType::f8_e4m3) continue;  // has codes that are no numbers
      for (int64_t rows : {1, 6}) {
        CodedProduct product(quantisation, rows, 512, 16);
        product.scramble();
        EXPECT_LE(product.normalised_error(pool), kTolerance) << quantisation.name << ", rows " << rows;
      }
    }
  });
}

// The largest magnitudes of codes and activations at once: sums of whole numbers must not leave their bits.
TEST(Linear, LargestCodesMeetLargestActivations) {
  constexpr double kOfEqualTerms = 1e-5;  // sums in f32 of equal terms are all rounded the same way
  ThreadPool pool(2);
  for_each_target([&] {
    for (const Quantisation& quantisation : all_quantisations()) {
      if (!multiplies_codes(quantisation.dtype)) continue;
      for (const auto activations :
           {CodedActivations::bits8, CodedActivations::bits15, CodedActivations::bits22}) {
        for (const unsigned code : {0x80u, 0x7fu, 0xffu}) {
          for (const float sign : {1.0f, -1.0f}) {
            CodedProduct product(quantisation, 3, 512, 8);
            product.largest(code, sign, activations);
            EXPECT_LE(product.normalised_error(pool), kOfEqualTerms)
                << quantisation.name << ", digits " << static_cast<int>(activations) << ", code " << code
                << ", sign " << sign;
          }
        }
      }
    }
  });
}

// As far off as one rounding of that size in 16 or 32 activations, and not nearer, which would be another
// way.
TEST(Linear, ShorterActivationsCostWhatIsSaid) {
  struct Bound {
    CodedActivations activations;
    double least, most;
  };
  ThreadPool pool(2);
  for_each_target([&] {
    for (const Bound& bound :
         {Bound{CodedActivations::bits15, 1e-5, 6e-5}, {CodedActivations::bits8, 2e-3, 8e-3}}) {
      const int64_t most = std::min<int64_t>(most_coded_rows({.activations = bound.activations}), 40);
      for (const Quantisation& quantisation : all_quantisations()) {
        for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{7}, most, most + 1}) {
          CodedProduct product(quantisation, rows, 1280, 18);
          product.round_to(bound.activations);
          const LinearMode mode{.activations = bound.activations};
          const bool coded = linear_way(rows, product.as_imported(), mode) == LinearWay::coded;
          const double error = product.normalised_error(pool);
          EXPECT_LE(error, coded ? bound.most : kTolerance) << quantisation.name << ", rows " << rows;
          EXPECT_GE(error, coded ? bound.least : 0) << quantisation.name << ", rows " << rows;
        }
      }
    }
  });
}

// As many rows as are multiplied at once, half of them, and so on; outputs that end within a vector.
TEST(Linear, RowsOfCodesDoNotDependOnEachOther) {
  constexpr int64_t kRows = 17, kOut = 37;
  ThreadPool pool(2);
  for_each_target([&] {
    for (const Quantisation& quantisation : all_quantisations()) {
      if (!multiplies_codes(quantisation.dtype)) continue;
      for (const auto activations :
           {CodedActivations::bits8, CodedActivations::bits15, CodedActivations::bits22}) {
        CodedProduct product(quantisation, kRows, 512, kOut);
        product.round_to(activations);
        std::vector<float> alone;
        for (int64_t r = 0; r < kRows; ++r) {
          const std::vector<float> one = product.outputs(pool, r, 1, LinearOrder::fixed);
          alone.insert(alone.end(), one.begin(), one.end());
        }
        for (int64_t count = 2; count <= kRows; ++count) {
          const std::vector<float> together = product.outputs(pool, 0, count, LinearOrder::fixed);
          EXPECT_TRUE(std::equal(together.begin(), together.end(), alone.begin()))
              << quantisation.name << ", rows " << count;
        }
      }
    }
  });
}

// 22 bits are as near as f32 for any number of rows, which meet codes where that is quick.
TEST(Linear, ManyRowsMeetCodesAsNearAsF32) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (const Quantisation& quantisation : all_quantisations()) {
      if (!multiplies_codes(quantisation.dtype)) continue;
      for (const int64_t rows : {7, 40}) {
        CodedProduct product(quantisation, rows, 768, 50);
        EXPECT_LE(product.normalised_error(pool, LinearOrder::fixed), kTolerance)
            << quantisation.name << ", rows " << rows;
      }
    }
  });
}

TEST(Linear, VnniIsUsedWhereTheProcessorHasIt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "not built under sanitizers";
#endif
  for_each_target([] { EXPECT_EQ(has_vnni(), (hwy::SupportedTargets() & HWY_AVX3_DL) != 0); });
}

TEST(Linear, NonFiniteActivationsShowInTheirRowOnly) {
  ThreadPool pool(2);
  const auto is_finite = [](float x) { return std::isfinite(x); };
  for_each_target([&] {
    for (const char* name : {"q4_k", "q8_0", "q6_k"}) {
      for (const auto activations :
           {CodedActivations::bits8, CodedActivations::bits15, CodedActivations::bits22}) {
        for (const float bad : {NAN, INFINITY, -INFINITY}) {
          CodedProduct product(*quantisation_named(name), 2, 512, 8);
          product.round_to(activations);
          product.in_at(0, 300) = bad;
          const std::vector<float> out = product.outputs(pool, 0, 2);
          EXPECT_TRUE(std::none_of(out.begin(), out.begin() + 8, is_finite)) << name << ", " << bad;
          EXPECT_TRUE(std::all_of(out.begin() + 8, out.end(), is_finite)) << name << ", " << bad;
        }
      }
    }
  });
}

TEST(Linear, OddShapes) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (DType dtype : kTypes) {
      for (int64_t size : {1, 7, 64, 100, 257}) {
        for (int64_t rows : {1, 2, 5, 16, 33}) expect_right(pool, dtype, rows, size, 100);
        for (int64_t rows : {1, 3, 12, 17}) expect_right(pool, dtype, rows, 100, size);
      }
    }
  });
}

TEST(Linear, EveryRowCount) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (int64_t rows = 1; rows <= 40; ++rows) expect_right(pool, DType::bf16, rows, 129, 37);
    expect_right(pool, DType::f16, 129, 130, 70);
  });
}

TEST(Linear, LargerThanOneBlock) {
  ThreadPool pool(2);
  for (DType dtype : kTypes) {
    expect_right(pool, dtype, 1, 1000, 1000);
    expect_right(pool, dtype, 16, 1000, 1000);
    expect_right(pool, dtype, 129, 1000, 257);
    expect_right(pool, dtype, 600, 40, 257);
    for (int64_t rows : {1, 2, 9, 20, 40}) expect_right(pool, dtype, rows, 5000, 33);
  }
}

TEST(Linear, EveryThreadCount) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    for (int64_t rows : {1, 4, 16, 100}) expect_right(pool, DType::f16, rows, 257, 1000);
  }
}

TEST(Linear, ManyEqualsOneByOne) {
  ThreadPool pool(3);
  for (int64_t rows : {1, 3, 20, 70}) {
    std::vector<Product> together, alone;
    for (uint32_t i = 0; i < 20; ++i) {
      const DType dtype = kTypes[i % 3];
      const int64_t in = 5 + 37 * i, out = 1 + 61 * (19 - i);
      together.emplace_back(dtype, rows, in, out, i);
      alone.emplace_back(dtype, rows, in, out, i);
    }
    std::vector<LinearTask> tasks;
    for (Product& product : together) tasks.push_back(product.task());
    linear_many(pool, tasks);
    for (size_t i = 0; i < together.size(); ++i) {
      alone[i].run(pool);
      EXPECT_LE(together[i].normalised_error(), kTolerance) << "task " << i << ", rows " << rows;
      EXPECT_EQ(together[i].out_at(rows - 1, 0), alone[i].out_at(rows - 1, 0)) << "task " << i;
    }
  }
}

TEST(Linear, ManyTakesDifferentRowCounts) {
  ThreadPool pool(2);
  Product few(DType::f16, 1, 64, 96), some(DType::bf16, 16, 96, 64), many(DType::f32, 90, 50, 70);
  const LinearTask tasks[] = {few.task(), some.task(), many.task()};
  linear_many(pool, tasks);
  for (const Product* product : {&few, &some, &many}) EXPECT_LE(product->normalised_error(), kTolerance);
}

TEST(Linear, NoRowsIsNothing) {
  ThreadPool pool(2);
  Product none(DType::f32, 0, 8, 8);
  none.run(pool);
  linear_many(pool, {});
}

}  // namespace
}  // namespace fulmar
