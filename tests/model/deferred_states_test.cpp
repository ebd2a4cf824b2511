// States written behind every M-th row give the bits of states written behind every step, whatever is copied,
// saved, restored, zeroed and rolled back in between.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cpu/cpu_ops.h"
#include "support/slot_script.h"

namespace fulmar {
namespace {

using support::expect_same_trace;
using support::ModelRig;
using support::play;
using support::SlotScript;
using support::SlotTrace;
using support::small_spec;

class DeferredStates : public testing::TestWithParam<int> {
 protected:
  // Head sizes that fill SIMD vectors and one that does not.
  std::vector<SyntheticSpec> specs() const {
    return {small_spec(GetParam(), 2, 64), small_spec(GetParam(), 3, 20)};
  }
  static SlotTrace trace(const SyntheticSpec& spec, const StateWrites& writes, const SlotScript& script) {
    const std::unique_ptr<Ops> ops = make_cpu_ops({.threads = 2, .state_writes = writes});
    return play(spec, *ops, script);
  }
};

TEST_P(DeferredStates, GiveTheBitsOfStatesWrittenEveryStep) {
  for (const SyntheticSpec& spec : specs()) {
    const SlotScript script{.seed = 5};
    const SlotTrace want = trace(spec, {}, script);
    ASSERT_GT(want.logits.size(), 100u);
    for (const int64_t every : {2, 3, 4, 8, 16}) {
      const SlotTrace got = trace(spec, {.every = every}, script);
      expect_same_trace(got, want, fmt::format("M {}, heads of {}", every, spec.head_size));
    }
  }
}

TEST_P(DeferredStates, RolledBackRowsLeaveNoTraceWhateverM) {
  for (const SyntheticSpec& spec : specs()) {
    const SlotScript script{.seed = 6, .steps = 80, .most_drafted = 5};
    const SlotTrace want = trace(spec, {.every = 1, .revocable = 6}, script);
    for (const int64_t every : {2, 4, 7, 16}) {
      const SlotTrace got = trace(spec, {.every = every, .revocable = 6}, script);
      expect_same_trace(got, want, fmt::format("M {}, heads of {}", every, spec.head_size));
    }
  }
}

// Against a model that has never seen the rows which were rolled back.
TEST_P(DeferredStates, ARollBackBringsBackStateAndShiftsOfTheRowsThatStay) {
  const SyntheticSpec spec = small_spec(GetParam(), 2, 64);
  const std::vector<int32_t> prompt{5, 9, 33, 71, 2}, drafted{8, 40, 41, 77};
  for (const int64_t every : {1, 3, 8}) {
    const auto plain = make_cpu_ops({.threads = 2});
    const auto deferred = make_cpu_ops({.threads = 2, .state_writes = {.every = every, .revocable = 4}});
    ModelRig want(synthetic_checkpoint(spec), *plain, 1), got(synthetic_checkpoint(spec), *deferred, 1);
    const StateLayout layout = want.model().state_layout();
    const auto numbers = static_cast<int64_t>(layout.slot_bytes() / sizeof(float));
    for (int64_t back = 0; back < 4; back++) {
      want.pool().zero(0), got.pool().zero(0);
      want.feed(0, prompt, 2), got.feed(0, prompt, 2);
      want.feed(0, {3}), got.feed(0, {3});
      const auto seen = got.step({{0, drafted, true}});
      ASSERT_EQ(seen.size(), drafted.size());
      got.roll_back(0, back);
      for (size_t i = 0; i + static_cast<size_t>(back) < drafted.size(); i++) {
        EXPECT_LT(support::relative_error(seen[i], want.feed(0, {drafted[i]})), 1e-5) << "draft " << i;
      }
      const auto state = got.state_part(0, 0, numbers);
      EXPECT_LT(support::relative_error({state.begin(), state.end()}, want.state_part(0, 0, numbers)), 1e-5)
          << "M " << every << ", " << back << " rolled back";
      EXPECT_LT(support::relative_error(got.feed(0, {50}), want.feed(0, {50})), 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, DeferredStates, testing::ValuesIn(kVersions));

}  // namespace
}  // namespace fulmar
