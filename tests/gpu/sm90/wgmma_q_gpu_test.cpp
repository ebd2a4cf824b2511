// Products of packed codes by panels against sums in double precision over the decoded weights: tiles that
// rows, outputs and inputs do not fill, tiles that blocks share, as fragments and transposed.
#include <algorithm>
#include <cmath>
#include <string>

#include "gpu/device/memory.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/sm90/wgmma_q.h"
#include "gpu/random_codes.h"
#include "gpu/sm90/sm90_device.h"
#include "support/ops_rig.h"

namespace fulmar {
namespace {

using support::Doubles;

// Weights are rounded to 16 bits once more than the reference's.
constexpr double kMostError = 1.5e-3;

struct Shape {
  int64_t rows, in;
  int multiprocessors;  // that the plan is made for
};

class GpuPackedPanels : public Sm90Test, public testing::WithParamInterface<std::tuple<std::string, Shape>> {
 protected:
  void SetUp() override { prepare(std::get<1>(GetParam()).rows, 200); }

  const Quantisation kind_ = *quantisation_named(std::get<0>(GetParam()));
  const Shape shape_ = std::get<1>(GetParam());

  struct One {
    int64_t out;
    gpu::Epilogue end;
    DType to;
  };
  void expect_agreement(WeightRole role, const std::vector<One>& each) {
    support::OpsRig rig(gpu(), 5);
    std::vector<gpu::Gemm> products;
    std::vector<support::Made> ins, outs;
    std::vector<RandomCodes> codes;
    for (const One& one : each) {
      codes.emplace_back(kind_, one.out, shape_.in);
      const double most = input_for_sums_near_one(codes.back().matrix);
      ins.push_back(rig.tensor(shape_.rows, shape_.in, DType::f16, -most, most));
      outs.push_back(rig.tensor(shape_.rows + 1, one.out, one.to, -1, 1));  // the last row stays as it is
      const auto weight = gpu().import_weight(codes.back().matrix, role);
      ASSERT_TRUE(weight.ok()) << weight.error().text;
      ASSERT_EQ(weight->dtype, kind_.dtype);
      products.push_back(
          {ins.back().tensor, *weight, outs.back().tensor.slice_rows(0, shape_.rows), one.end});
    }
    gpu().synchronise();
    const gpu::WgmmaPlan plan = gpu::plan_wgmma_q(products, room_of(shape_.multiprocessors));
    const auto partial = gpu::allocate_device(plan.partial_bytes + sizeof(float));
    const auto counters = gpu::allocate_device(static_cast<size_t>(plan.tiles) * sizeof(uint32_t));
    ASSERT_TRUE(partial.ok() && counters.ok());
    FULMAR_GPU(cudaMemset(counters.value().data(), 0, counters.value().bytes()));
    const auto run = [&] {
      gpu::launch_wgmma_q(
          {}, products, plan,
          {static_cast<float*>(partial.value().data()), static_cast<uint32_t*>(counters.value().data())});
      FULMAR_GPU(cudaDeviceSynchronize());
    };
    run();
    std::vector<Doubles> got;
    for (size_t i = 0; i < outs.size(); i++) {
      got.push_back(rig.read(outs[i].tensor));
      const auto rows_end = got[i].begin() + static_cast<std::ptrdiff_t>(shape_.rows * each[i].out);
      support::expect_close({got[i].begin(), rows_end}, product(ins[i], codes[i].matrix, each[i].end),
                            kMostError, std::to_string(each[i].out));
      EXPECT_TRUE(std::equal(rows_end, got[i].end(), outs[i].values.end() - each[i].out)) << "the row behind";
    }
    run();
    for (size_t i = 0; i < outs.size(); i++) EXPECT_EQ(rig.read(outs[i].tensor), got[i]) << "bits again";
  }

 private:
  static std::vector<float> decoded(const HostMatrix& matrix) {
    std::vector<float> weight(static_cast<size_t>(matrix.rows * matrix.cols));
    rows_as_f32(matrix, 0, weight);
    return weight;
  }
  // Of uniform inputs, the largest.
  static double input_for_sums_near_one(const HostMatrix& matrix) {
    double squares = 0;
    const std::vector<float> weight = decoded(matrix);
    for (const float w : weight) squares += static_cast<double>(w) * static_cast<double>(w);
    return std::sqrt(3 * static_cast<double>(matrix.rows) / squares);
  }
  static Doubles product(const support::Made& in, const HostMatrix& matrix, gpu::Epilogue end) {
    const std::vector<float> weight = decoded(matrix);
    Doubles out;
    for (int64_t r = 0; r < in.tensor.rows; r++) {
      for (int64_t o = 0; o < matrix.rows; o++) {
        double sum = 0;
        for (int64_t k = 0; k < matrix.cols; k++) {
          sum += in.at(r, k) * static_cast<double>(weight[static_cast<size_t>(o * matrix.cols + k)]);
        }
        if (end == gpu::Epilogue::relu_squared) sum = sum > 0 ? sum * sum : 0;
        if (end == gpu::Epilogue::tanh) sum = std::tanh(sum);
        out.push_back(sum);
      }
    }
    return out;
  }
};

TEST_P(GpuPackedPanels, AgreeWithSumsOverDecodedWeights) {
  expect_agreement(WeightRole::projection, {{256, gpu::Epilogue::none, DType::f16},
                                            {96, gpu::Epilogue::tanh, DType::f16},
                                            {388, gpu::Epilogue::relu_squared, DType::f16},
                                            {132, gpu::Epilogue::none, DType::f32}});
}

TEST_P(GpuPackedPanels, AgreeForMatricesWhoseZeroInputsAreSkippedForFewRows) {
  if (shape_.in % 512 != 0 || kind_.dtype == DType::q6_k) GTEST_SKIP() << "not packed transposed";
  expect_agreement(WeightRole::ffn_value, {{640, gpu::Epilogue::none, DType::f16}});
}

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const Quantisation& one : all_quantisations()) {
    if (gpu::suits_packing(one.dtype, 512, group_of(one, 512))) names.emplace_back(one.name);
  }
  return names;
}

const auto kName = [](const auto& one) {
  const auto& [kind, shape] = one.param;
  return kind + "_" + std::to_string(shape.rows) + "x" + std::to_string(shape.in) + "_for_" +
         std::to_string(shape.multiprocessors);
};
INSTANTIATE_TEST_SUITE_P(Kinds, GpuPackedPanels,
                         testing::Combine(testing::ValuesIn(kinds()),
                                          testing::Values(Shape{9, 512, 132}, Shape{32, 1024, 7},
                                                          Shape{45, 256, 3}, Shape{64, 512, 132},
                                                          Shape{100, 512, 2}, Shape{161, 512, 5},
                                                          Shape{130, 1024, 32}, Shape{161, 1024, 64},
                                                          Shape{320, 512, 132}, Shape{1000, 256, 132})),
                         kName);

}  // namespace
}  // namespace fulmar
