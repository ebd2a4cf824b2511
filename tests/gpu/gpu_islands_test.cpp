// Every island on the GPU against its default body on the CPU in f32, in one process and on equal numbers, at
// odd shapes.
#include "cpu/cpu_ops.h"
#include "gpu/gpu_device.h"
#include "support/islands.h"

namespace fulmar {
namespace {

using cases::Body;
using cases::Island;
using support::IslandShape;

// Normalised, with activations in f16 and states in f32: what one island may lose between its inputs and what
// it leaves. Bodies that round in between (u, k, hidden units) come to a quarter of it.
constexpr double kTolerance = 2e-3;

std::vector<IslandShape> shapes() {
  const std::vector<int32_t> decode32(32, 1);
  std::vector<IslandShape> list;
  const auto add = [&](const std::string& name, int64_t n_head, int64_t rank, std::vector<int32_t> lengths) {
    list.push_back({name, n_head, 64, n_head < 64 ? 512 : 1024, rank, DType::f16, std::move(lengths)});
  };
  for (const int32_t length : {1, 15, 16, 17, 4097}) add("T" + std::to_string(length), 1, 32, {length});
  add("ragged", 5, 32, {3, 1, 17, 16, 33});
  add("decode8", 12, 64, std::vector<int32_t>(8, 1));
  add("decode32", 12, 64, decode32);
  add("wide_row", 64, 128, {1});
  add("wide_ragged", 64, 128, {17, 1, 2, 80});
  return list;
}

class GpuIslands : public testing::TestWithParam<std::tuple<Island, IslandShape>> {
 protected:
  void SetUp() override {
    if (shared_gpu() == nullptr) GTEST_SKIP() << "no usable GPU on this machine";
  }
};

TEST_P(GpuIslands, AgreeWithTheCpu) {
  const auto& [island, shape] = GetParam();
  const auto run = [&](Ops& ops, Body body) {
    support::CaseLayer stage(ops, shape, DType::f16);
    return stage.run(island.prepare(stage), body);
  };
  const std::unique_ptr<Ops> cpu = make_cpu_ops({.threads = 0});
  support::expect_equal(run(*shared_gpu(), Body::own), run(*cpu, Body::composed), island.slack * kTolerance);
}

const auto kName = [](const auto& one) {
  return std::get<0>(one.param).name + "_" + std::get<1>(one.param).name;
};
INSTANTIATE_TEST_SUITE_P(Shapes, GpuIslands,
                         testing::Combine(testing::ValuesIn(cases::islands()), testing::ValuesIn(shapes())),
                         kName);
INSTANTIATE_TEST_SUITE_P(GemmDispatcher, GpuIslands,
                         testing::Combine(testing::ValuesIn(cases::products()), testing::ValuesIn(shapes())),
                         kName);

}  // namespace
}  // namespace fulmar
