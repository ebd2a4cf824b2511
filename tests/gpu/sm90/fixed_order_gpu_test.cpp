// Products in a fixed order of adding: a row has the same bits in every shape of tiles and beside any number
// of other rows.
#include <string>
#include <vector>

#include "gpu/device/memory.h"
#include "gpu/gemm/sm90/wgmma_q.h"
#include "gpu/random_codes.h"
#include "gpu/sm90/sm90_device.h"
#include "support/ops_rig.h"

namespace fulmar {
namespace {

using support::Doubles;

constexpr int64_t kIn = 1024, kRows = 330;
constexpr int64_t kCounts[] = {1, 2, 9, 33, 64, 65, 129, 161, 320, 330};

class GpuFixedOrder : public Sm90Test, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { prepare(kRows, 200); }

  struct One {
    int64_t out;
    gpu::Epilogue end;
    DType to;
  };
  static std::vector<One> outputs(DType dtype) {
    return {{1024, gpu::Epilogue::none, dtype},
            {96, gpu::Epilogue::tanh, dtype},
            {388, gpu::Epilogue::relu_squared, dtype},
            {260, gpu::Epilogue::none, DType::f32}};
  }

  // `run` multiplies by a plan; `shapes`: how many there are.
  template <class Run>
  void expect_equal_rows(support::OpsRig& rig, const std::vector<gpu::Gemm>& all, int64_t shapes, Run&& run) {
    std::vector<Doubles> want;
    for (int64_t shape = 0; shape < shapes; shape++) {
      for (const int64_t rows : kCounts) {
        std::vector<gpu::Gemm> products = all;
        for (gpu::Gemm& one : products) {
          one.in = one.in.slice_rows(kRows - rows, rows);  // the last ones
          one.out = one.out.slice_rows(0, rows);
          FULMAR_GPU(
              cudaMemset(one.out.data, 0xff, static_cast<size_t>(one.out.count()) * size_of(one.out.dtype)));
        }
        run(products, gpu::WgmmaPlan{.shape = shape, .blocks = 132});
        FULMAR_GPU(cudaDeviceSynchronize());
        for (size_t i = 0; i < products.size(); i++) {
          const Doubles got = rig.read(products[i].out.slice_rows(rows - 1, 1));
          if (want.size() <= i) want.push_back(got);
          EXPECT_EQ(got, want[i]) << "shape " << shape << ", " << rows << " rows, product " << i;
        }
      }
    }
  }
};

TEST_P(GpuFixedOrder, OfPanels) {
  const auto dtype = GetParam() == "bf16" ? DType::bf16 : DType::f16;
  if (GetParam() != name_of(dtype)) GTEST_SKIP() << "codes are another test's";
  const auto opened = open_test_gpu({.activation = dtype});
  ASSERT_TRUE(opened.ok());
  support::OpsRig rig(**opened, 5);
  std::vector<support::Made> kept;
  std::vector<gpu::Gemm> products;
  const Tensor in = rig.tensor(kRows, kIn).tensor;
  for (const One& one : outputs(dtype)) {
    const Weight weight = rig.bare_weight(one.out, kIn, dtype, WeightRole::projection);
    kept.push_back(rig.tensor(kRows, one.out, one.to, -1, 1));
    products.push_back({in, weight, kept.back().tensor, one.end});
  }
  (*opened)->synchronise();
  expect_equal_rows(rig, products, gpu::kWgmmaShapeCount, [](const auto& list, const gpu::WgmmaPlan& plan) {
    gpu::launch_wgmma({}, list, plan, {});
  });
}

TEST_P(GpuFixedOrder, OfCodes) {
  const auto kind = quantisation_named(GetParam());
  if (!kind) GTEST_SKIP() << "16-bit weights are another test's";
  support::OpsRig rig(gpu(), 5);
  std::vector<support::Made> kept;
  std::vector<gpu::Gemm> products;
  const Tensor in = rig.tensor(kRows, kIn, DType::f16, -1, 1).tensor;
  for (const One& one : outputs(DType::f16)) {
    const RandomCodes codes(*kind, one.out, kIn);
    const auto weight = gpu().import_weight(codes.matrix, WeightRole::projection);
    ASSERT_TRUE(weight.ok()) << weight.error().text;
    kept.push_back(rig.tensor(kRows, one.out, one.to, -1, 1));
    products.push_back({in, *weight, kept.back().tensor, one.end});
  }
  gpu().synchronise();
  expect_equal_rows(
      rig, products, gpu::kWgmmaQShapeCount - gpu::kSlicedShapeCount,
      [](const auto& list, const gpu::WgmmaPlan& plan) { gpu::launch_wgmma_q({}, list, plan, {}); });
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuFixedOrder,
                         testing::Values("f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k", "nf4", "fp8"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace fulmar
