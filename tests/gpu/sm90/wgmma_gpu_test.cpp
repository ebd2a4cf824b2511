// Grouped products by panels against the same products and their ends one after the other: tiles that rows,
// outputs and inputs do not fill, one round of them and several, outputs of which some suit TMA.
#include <algorithm>
#include <optional>
#include <string>

#include "gpu/device/memory.h"
#include "gpu/gemm/sm90/wgmma.h"
#include "gpu/sm90/sm90_device.h"
#include "support/ops_rig.h"

namespace fulmar {
namespace {

struct Shape {
  int64_t rows, in;
  int multiprocessors;  // that the plan is made for
};

class GpuPanels : public Sm90Test, public testing::WithParamInterface<std::tuple<DType, Shape>> {
 protected:
  void SetUp() override { prepare(std::get<1>(GetParam()).rows, 500); }
};

TEST_P(GpuPanels, AgreeWithProductsAndEndsOneAfterTheOther) {
  const auto& [dtype, shape] = GetParam();
  const auto opened = open_test_gpu({.activation = dtype});
  ASSERT_TRUE(opened.ok());
  Ops& ops = *opened.value();
  support::OpsRig rig(ops, 5);
  struct One {
    int64_t out;
    gpu::Epilogue end;
    std::optional<Activation> same;
  };
  const One each[] = {{1024, gpu::Epilogue::none, {}},
                      {96, gpu::Epilogue::tanh, Activation::tanh},
                      {260, gpu::Epilogue::sigmoid, Activation::sigmoid},
                      {1536, gpu::Epilogue::relu_squared, Activation::relu_squared}};
  std::vector<gpu::Gemm> products;
  std::vector<support::Made> outs;
  std::vector<Tensor> wants;
  for (const One& one : each) {
    const Tensor in = rig.tensor(shape.rows, shape.in).tensor;
    const Weight weight = rig.bare_weight(one.out, shape.in, dtype, WeightRole::projection);
    outs.push_back(rig.tensor(shape.rows + 1, one.out));  // the last row stays as it is
    wants.push_back(rig.empty(shape.rows, one.out));
    ops.linear(in, weight, wants.back());
    if (one.same) ops.activate(wants.back(), {}, *one.same);
    products.push_back({in, weight, outs.back().tensor.slice_rows(0, shape.rows), one.end});
  }
  ops.synchronise();
  const gpu::WgmmaPlan plan = gpu::plan_wgmma(products, room_of(shape.multiprocessors));
  const auto partial = gpu::allocate_device(plan.partial_bytes + sizeof(float));
  const auto counters = gpu::allocate_device(static_cast<size_t>(plan.tiles) * sizeof(uint32_t));
  ASSERT_TRUE(partial.ok() && counters.ok());
  FULMAR_GPU(cudaMemset(counters.value().data(), 0, counters.value().bytes()));
  const auto run = [&] {
    gpu::launch_wgmma(
        {}, products, plan,
        {static_cast<float*>(partial.value().data()), static_cast<uint32_t*>(counters.value().data())});
    FULMAR_GPU(cudaDeviceSynchronize());
  };
  run();
  std::vector<support::Doubles> got;
  for (size_t i = 0; i < outs.size(); i++) {
    got.push_back(rig.read(outs[i].tensor));
    const auto rows_end = got[i].begin() + static_cast<std::ptrdiff_t>(shape.rows * each[i].out);
    support::expect_close({got[i].begin(), rows_end}, rig.read(wants[i]), dtype, std::to_string(each[i].out));
    EXPECT_TRUE(std::equal(rows_end, got[i].end(), outs[i].values.end() - each[i].out)) << "the row behind";
  }
  run();
  for (size_t i = 0; i < outs.size(); i++) EXPECT_EQ(rig.read(outs[i].tensor), got[i]) << "bits again";
}

const auto kName = [](const auto& one) {
  const auto& [dtype, shape] = one.param;
  return std::string(name_of(dtype)) + "_" + std::to_string(shape.rows) + "x" + std::to_string(shape.in) +
         "_for_" + std::to_string(shape.multiprocessors);
};
INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuPanels,
    testing::Combine(testing::Values(DType::f16, DType::bf16),
                     testing::Values(Shape{9, 1024, 132}, Shape{33, 72, 2}, Shape{130, 1024, 132},
                                     Shape{130, 1024, 4}, Shape{161, 512, 4}, Shape{257, 1000, 132},
                                     Shape{300, 72, 2}, Shape{320, 1024, 132}, Shape{320, 1024, 8},
                                     Shape{321, 256, 4}, Shape{192, 4096, 132}, Shape{140, 1000, 48},
                                     Shape{160, 2048, 64}, Shape{960, 512, 132}, Shape{960, 512, 6})),
    kName);

}  // namespace
}  // namespace fulmar
