// Products of one to eight rows from packed codes against sums in double precision, of inputs with a mean far
// from zero: what codes are stored too large by, or minima take off, is then as large as what they stand for.
#include <algorithm>
#include <cmath>
#include <random>

#include "gpu/gpu_device.h"
#include "gpu/random_codes.h"
#include "support/ops_rig.h"
#include "tensor/convert.h"
#include "tensor/quantise.h"

namespace fulmar {
namespace {

using support::Doubles;

constexpr int64_t kOuts = 72;            // the last tile is not whole
constexpr double kMostError = 2e-3;      // scales in f16 are off by 2^-12
constexpr int64_t kIns[] = {768, 2304};  // fewer pieces than warps, and two or three for each

std::vector<Quantisation> kinds() {
  const auto all = all_quantisations();
  std::vector<Quantisation> kinds(all.begin(), all.end());
  kinds.insert(kinds.end(), {{"int4_g32", DType::i4, 32},
                             {"int4_g64", DType::i4, 64},
                             {"int4_g256", DType::i4, 256},
                             {"int8_g32", DType::i8, 32},
                             {"int8_g64", DType::i8, 64}});
  return kinds;
}

class GpuPackedRows : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  static Doubles inputs_about(double mean, int64_t rows, int64_t in) {
    std::minstd_rand random(11);
    std::uniform_real_distribution<float> number(-0.5f, 0.5f);
    Doubles x(static_cast<size_t>(rows * in));
    for (double& one : x) one = f16_to_f32(f32_to_f16(static_cast<float>(mean) + number(random)));
    return x;
  }
  // Of the products' root mean square.
  double error_of(const RandomCodes& random, const Weight& weight, double mean, int64_t rows) {
    const int64_t in = random.matrix.cols, out = random.matrix.rows;
    support::OpsRig rig(gpu(), 4);
    const Doubles x = inputs_about(mean, rows, in);
    const Tensor result = rig.empty(rows, out, DType::f32);
    gpu().linear(rig.tensor_of(x, rows, in, DType::f16).tensor, weight, result);
    const Doubles got = rig.read(result);
    std::vector<float> weights(static_cast<size_t>(out * in));
    rows_as_f32(random.matrix, 0, weights);
    double error = 0, size = 0;
    for (int64_t i = 0; i < rows * out; i++) {
      double want = 0;
      for (int64_t k = 0; k < in; k++) {
        want += x[static_cast<size_t>(i / out * in + k)] * weights[static_cast<size_t>(i % out * in + k)];
      }
      const double off = got[static_cast<size_t>(i)] - want;
      error += off * off, size += want * want;
    }
    return std::sqrt(error / size);
  }
};

TEST_P(GpuPackedRows, AgreeWithDoublePrecisionWhateverTheInputsMean) {
  const std::vector<Quantisation> all = kinds();
  const Quantisation& by = *std::ranges::find(all, GetParam(), &Quantisation::name);
  for (const int64_t in : kIns) {
    ASSERT_TRUE(suits(by, in));
    const RandomCodes random(by, kOuts, in);
    const auto imported = gpu().import_weight(random.matrix, WeightRole::projection);
    ASSERT_TRUE(imported.ok()) << imported.error().text;
    for (const double mean : {0.0, 3.0, -40.0}) {
      for (const int64_t rows : {1, 2, 3, 5, 8}) {
        EXPECT_LT(error_of(random, *imported, mean, rows), kMostError)
            << rows << " rows of " << in << " about " << mean;
      }
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Quantisation& one : kinds()) names.emplace_back(one.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuPackedRows, testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace fulmar
