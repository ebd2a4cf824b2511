// The table of op cases on the CPU backend.
#include <gtest/gtest.h>

#include "cpu/cpu_ops.h"
#include "support/ops_cases.h"

namespace fulmar {
namespace {

class CpuOpsCases : public testing::TestWithParam<support::OpsCase> {
 protected:
  static Ops& ops() {
    static const std::unique_ptr<Ops> shared = make_cpu_ops({.threads = 2});
    return *shared;
  }
};

TEST_P(CpuOpsCases, Holds) { GetParam().run(ops()); }

const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Islands, CpuOpsCases, testing::ValuesIn(support::island_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Formats, CpuOpsCases, testing::ValuesIn(support::format_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Primitives, CpuOpsCases, testing::ValuesIn(support::primitive_cases()), kName);

}  // namespace
}  // namespace fulmar
