// A deterministic CPU gives a sequence the same bits whatever shares its steps, and wherever its prompts are
// cut.
#include "support/company.h"

#include <gtest/gtest.h>

#include "cpu/cpu_ops.h"

namespace fulmar {
namespace {

using support::Company;
using support::company_slots;
using support::expect_same_trace;
using support::ModelRig;
using support::play_in_company;
using support::SlotTrace;

struct CompanyCase {
  const char* name;
  int version;
  DType dtype;
  const char* quantised;  // or null
  int64_t every;          // M
};

class CompanyOnCpu : public testing::TestWithParam<CompanyCase> {
 protected:
  static constexpr int64_t kMostRows = 129;

  std::unique_ptr<ModelRig> rig(bool deterministic) {
    devices_.push_back(make_cpu_ops({.threads = 2,
                                     .state_writes = {.every = GetParam().every, .revocable = 6},
                                     .deterministic = deterministic}));
    SyntheticSpec spec = support::small_spec(GetParam().version, 4, 64, GetParam().dtype);
    if (GetParam().quantised != nullptr) spec.quantisation = quantisation_named(GetParam().quantised);
    return std::make_unique<ModelRig>(synthetic_checkpoint(spec), *devices_.back(), company_slots(kMostRows),
                                      LoadOptions{.max_rows = 256, .max_wanted = 256});
  }

  std::vector<std::unique_ptr<Ops>> devices_;
};

TEST_P(CompanyOnCpu, ChangesNoBit) {
  const auto with = rig(true);
  ASSERT_TRUE(with->loaded());
  const SlotTrace alone = play_in_company(*with, {.rows = 1}, true);
  for (const int64_t rows : {2, 5, 8, 9, 17, 33, 64, 129}) {
    for (const bool mixed : {false, true}) {
      expect_same_trace(play_in_company(*with, {rows, mixed}, true), alone,
                        std::to_string(rows) + (mixed ? " rows, mixed" : " rows"));
    }
  }
}

TEST_P(CompanyOnCpu, AreThoseOfEveryCutOfAPrompt) {
  const auto with = rig(true);
  ASSERT_TRUE(with->loaded());
  const std::vector<int32_t> prompt = support::random_tokens(100, 3);
  with->pool().zero(0);
  const std::vector<float> whole = with->feed(0, prompt);
  for (const int64_t chunk : {1, 3, 16, 33, 99}) {
    with->pool().zero(1);
    EXPECT_EQ(with->feed(1, prompt, chunk), whole) << chunk;
    EXPECT_EQ(with->pool().read(1), with->pool().read(0)) << chunk;
  }
}

// The test above can fail: without the option, other numbers of rows are added up in another order.
TEST_P(CompanyOnCpu, ShowsWithoutTheOption) {
  const auto without = rig(false);
  ASSERT_TRUE(without->loaded());
  EXPECT_NE(play_in_company(*without, {129, false}, true).logits,
            play_in_company(*without, {1, false}, true).logits);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CompanyOnCpu,
                         testing::Values(CompanyCase{"Rwkv7F16", 7, DType::f16, nullptr, 1},
                                         CompanyCase{"Rwkv7F32M4", 7, DType::f32, nullptr, 4},
                                         CompanyCase{"Rwkv7Q4k", 7, DType::f16, "q4_k", 1},
                                         CompanyCase{"Rwkv7F8", 7, DType::f16, "fp8", 1},
                                         CompanyCase{"Rwkv6Bf16", 6, DType::bf16, nullptr, 1}),
                         [](const auto& made) { return made.param.name; });

}  // namespace
}  // namespace fulmar
