// The table of op cases on the GPU: primitives against double precision, islands against their composition.
#include "gpu/gpu_device.h"
#include "support/ops_cases.h"

namespace fulmar {
namespace {

class GpuOpsCases : public testing::TestWithParam<support::OpsCase> {
 protected:
  void SetUp() override {
    if (shared_gpu() == nullptr) GTEST_SKIP() << "no usable GPU on this machine";
  }
};

TEST_P(GpuOpsCases, Holds) { GetParam().run(*shared_gpu()); }

const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Primitives, GpuOpsCases, testing::ValuesIn(support::primitive_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Formats, GpuOpsCases, testing::ValuesIn(support::format_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Islands, GpuOpsCases, testing::ValuesIn(support::island_cases()), kName);

}  // namespace
}  // namespace fulmar
