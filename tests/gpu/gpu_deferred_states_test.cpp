// Deferred state writes on a GPU: f32 states keep the bits of states that every step writes, half states stay
// as close to f32 as those do and repeat their bits, and rows are rolled back as on the CPU.
#include <fmt/format.h>

#include <cmath>

#include "cpu/cpu_ops.h"
#include "gpu/gpu_models.h"

namespace fulmar {
namespace {

using support::expect_same_trace;
using support::Feed;
using support::ModelRig;
using support::SlotScript;
using support::SlotTrace;

SyntheticSpec spec_of(int version) { return two_layers(version, 3, 384, 32); }

class GpuDeferredStates : public GpuTest, public testing::WithParamInterface<int> {
 protected:
  static SlotTrace trace(const StateWrites& writes, const SlotScript& script, bool half = false,
                         DType activation = DType::f16) {
    return play_on_gpu(spec_of(GetParam()),
                       {.half_state = half, .activation = activation, .state_writes = writes}, script);
  }
  int steps(int all) const { return under_racecheck() ? all / 10 : all; }
};

// Root mean square over all rows of a trace.
double trace_error(const SlotTrace& got, const SlotTrace& want) {
  double sum = 0;
  for (size_t i = 0; i < want.logits.size(); i++) {
    const double error = support::relative_error(got.logits[i], want.logits[i]);
    sum += error * error / static_cast<double>(want.logits.size());
  }
  return std::sqrt(sum);
}

TEST_P(GpuDeferredStates, F32StatesKeepTheirBits) {
  for (const int64_t slots : {5, 21}) {
    const SlotScript script{.seed = 7, .steps = steps(60), .slots = slots, .longest = 40};
    const SlotTrace want = trace({}, script);
    for (const int64_t every : {2, 4, 7, 16}) {
      const SlotTrace got = trace({.every = every}, script);
      expect_same_trace(got, want, fmt::format("M {}, {} slots", every, slots));
    }
  }
}

TEST_P(GpuDeferredStates, BrainFloatRingsKeepTheBitsToo) {
  const SlotScript script{.seed = 10, .steps = steps(40), .longest = 20};
  const SlotTrace want = trace({}, script, false, DType::bf16);
  const SlotTrace got = trace({.every = 5}, script, false, DType::bf16);
  expect_same_trace(got, want, "M 5");
}

TEST_P(GpuDeferredStates, RolledBackRowsLeaveNoTraceWhateverM) {
  const SlotScript script{.seed = 8, .steps = steps(60), .slots = 6, .longest = 40, .most_drafted = 5};
  const SlotTrace want = trace({.every = 1, .revocable = 6}, script);
  for (const int64_t every : {3, 4, 16}) {
    const SlotTrace got = trace({.every = every, .revocable = 6}, script);
    expect_same_trace(got, want, fmt::format("M {}", every));
  }
}

// Half states are rounded where they are written: behind every M-th row of a sequence, wherever the others of
// its steps stand.
TEST_P(GpuDeferredStates, HalfStatesAreRoundedByTheirOwnRowsOnly) {
  const std::unique_ptr<Ops> ops = opened_gpu({.half_state = true, .state_writes = {.every = 4}});
  for (const int64_t rows : {3, 11}) {
    ModelRig rig(synthetic_checkpoint(spec_of(GetParam())), *ops, rows);
    const auto decode = [&](int64_t ahead) {  // rows by which every other sequence is ahead of the first
      SlotTrace seen;
      std::vector<Feed> feeds;
      for (int64_t slot = 0; slot < rows; slot++) {
        rig.pool().zero(slot);
        feeds.push_back({slot, {3, 14, static_cast<int32_t>(slot)}});
      }
      rig.step(feeds);
      for (Feed& feed : feeds) feed.tokens.resize(1);
      for (int64_t i = 0; i < ahead; i++) rig.step({feeds.begin() + 1, feeds.end()});
      for (int32_t i = 0; i < 9; i++) {
        feeds[0].tokens = {i + 40};
        seen.logits.push_back(rig.step(feeds).front());
      }
      seen.states.push_back(rig.pool().read(0));
      return seen;
    };
    const SlotTrace together = decode(0);
    for (const int64_t ahead : {1, 2, 3}) {
      const SlotTrace apart = decode(ahead);
      expect_same_trace(apart, together, fmt::format("{} rows, {} ahead", rows, ahead));
    }
  }
}

TEST_P(GpuDeferredStates, HalfStatesStayAsCloseToF32AsWithoutDeferring) {
  const SlotScript script{.seed = 9, .steps = steps(60), .slots = 14, .longest = 30, .restores_every = 0};
  const SlotTrace wide = trace({}, script);
  const double every_step = trace_error(trace({}, script, true), wide);
  for (const int64_t every : {2, 4, 8, 16}) {
    EXPECT_LT(trace_error(trace({.every = every}, script, true), wide), 1.5 * every_step + 1e-3)
        << "M " << every;
  }
}

// Rings of heads, rows and parts that the CPU lays out and replays by itself.
TEST_P(GpuDeferredStates, AgreeWithTheCpu) {
  const std::unique_ptr<Ops> cpu = make_cpu_ops({.threads = 2, .state_writes = {.every = 4, .revocable = 5}});
  const std::unique_ptr<Ops> device = opened_gpu({.state_writes = {.every = 4, .revocable = 5}});
  ModelRig want(synthetic_checkpoint(spec_of(GetParam())), *cpu, 3),
      got(synthetic_checkpoint(spec_of(GetParam())), *device, 3);
  const auto step = [&](const std::vector<Feed>& feeds, const char* what) {
    const auto a = got.step(feeds), b = want.step(feeds);
    for (size_t i = 0; i < b.size(); i++) EXPECT_LT(support::relative_error(a[i], b[i]), 1e-2) << what << i;
  };
  step({{0, {5, 6, 7, 8, 9, 10, 11}}, {1, {80, 81, 82, 83, 84}}, {2, {30, 31, 32, 33}}}, "prompts");
  for (int32_t i = 0; i < 5; i++) step({{2, {i}}, {0, {i + 20}}, {1, {i + 40}}}, "decoded");
  for (const int64_t back : {0, 3, 1, 2}) {
    step({{1, {3, 4, 5, 6}, true}, {0, {77}}, {2, {60, 61}}}, "drafted");
    want.roll_back(1, back), got.roll_back(1, back);
    step({{0, {12}}, {1, {13}}}, "behind a roll back");
  }
  step({{1, {50}}}, "alone");
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuDeferredStates, testing::ValuesIn(kVersions));

}  // namespace
}  // namespace fulmar
