// Products of GPUs without panels: grouped products by tiles against the same products and their ends one
// after the other, at sizes that fill no tile, in one slice and several; and islands that go by them.
#include <algorithm>
#include <optional>

#include "files/synthetic.h"
#include "gpu/device/memory.h"
#include "gpu/gemm/mma.h"
#include "gpu/gpu_device.h"
#include "support/model_rig.h"
#include "support/ops_rig.h"

namespace fulmar {
namespace {

struct Shape {
  int64_t rows, in;
  int multiprocessors;  // that the plan is made for
};

class GpuTiles : public GpuTest, public testing::WithParamInterface<std::tuple<DType, Shape>> {};

TEST_P(GpuTiles, AgreeWithProductsAndEndsOneAfterTheOther) {
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
                      {72, gpu::Epilogue::silu, Activation::silu},
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
  const gpu::MmaPlan plan = gpu::plan_mma(products, shape.multiprocessors);
  const auto partial = gpu::allocate_device(plan.partial_bytes + sizeof(float));
  const auto counters = gpu::allocate_device(static_cast<size_t>(plan.tiles) * sizeof(uint32_t));
  ASSERT_TRUE(partial.ok() && counters.ok());
  FULMAR_GPU(cudaMemset(counters.value().data(), 0, counters.value().bytes()));
  const auto run = [&] {
    gpu::launch_mma({}, products, plan, static_cast<float*>(partial.value().data()),
                    static_cast<uint32_t*>(counters.value().data()));
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
    Shapes, GpuTiles,
    testing::Combine(testing::Values(DType::f16, DType::bf16),
                     testing::Values(Shape{1, 64, 4}, Shape{9, 1024, 132}, Shape{13, 72, 2},
                                     Shape{16, 1000, 108}, Shape{17, 256, 132}, Shape{32, 4096, 132},
                                     Shape{32, 1024, 4}, Shape{33, 1000, 132}, Shape{64, 1024, 132},
                                     Shape{64, 328, 8}, Shape{65, 512, 132}, Shape{130, 200, 20})),
    kName);

class GpuNoPanels : public GpuTest, public testing::WithParamInterface<int> {};

// Whole steps of 9 to 64 rows, and prompts, as GPUs without panels take them.
TEST_P(GpuNoPanels, GiveTheLogitsOfStepsWithThem) {
  SyntheticSpec spec{.version = GetParam(), .n_layer = 2, .n_head = 4, .head_size = 64, .vocab = 256};
  spec.n_ffn = 1024;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = spec.rank_decay = 32;
  spec.dtype = DType::f16;
  auto opened = open_test_gpu({.panels = false});
  ASSERT_TRUE(opened.ok());
  const std::unique_ptr<Ops> plain = std::move(opened).value();
  support::ModelRig want(synthetic_checkpoint(spec), gpu(), 70), got(synthetic_checkpoint(spec), *plain, 70);
  ASSERT_TRUE(want.loaded() && got.loaded());
  for (const int64_t rows : {9, 16, 17, 33, 64}) {
    if (under_racecheck() && rows > 17) continue;
    std::vector<support::Feed> prompts, feeds;
    for (int64_t row = 0; row < rows; row++) {
      for (support::ModelRig* rig : {&want, &got}) rig->pool().zero(row);
      prompts.push_back({row, {static_cast<int32_t>(row), 7, static_cast<int32_t>(rows + row), 3}});
      feeds.push_back({row, {static_cast<int32_t>(row * 37 % 256)}});
    }
    want.step(prompts), got.step(prompts);
    for (int round = 0; round < 3; round++) {
      const auto expected = want.step(feeds), found = got.step(feeds);
      for (size_t row = 0; row < found.size(); row++) {
        EXPECT_LT(support::relative_error(found[row], expected[row]), 2e-2) << rows << " rows, row " << row;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuNoPanels, testing::ValuesIn(kVersions));

}  // namespace
}  // namespace fulmar
