// RWKV-7's fused kernels at the shapes where one gives way to the next, against the default composition of
// the same backend: one row, tiles of 32 to 160 rows with a remainder, slices of the inputs, odd ranks,
// sequences that go in chunks.
#include <numeric>
#include <optional>

#include "cases/composed.h"
#include "gpu/gpu_device.h"
#include "support/islands.h"

namespace fulmar {
namespace {

using support::Doubles;
using support::OpsRig;

constexpr int64_t kHeads = 16, kWidth = kHeads * 64, kHidden = 2048;

cases::LayerShape layer_shape() {
  cases::LayerShape shape{kHeads, 64, kHidden};
  shape.rank_w = 128;
  shape.rank_a = 72;
  shape.rank_v = 40;
  shape.rank_g = 328;
  return shape;
}

TimeMix7 time_mix(OpsRig& rig) {
  support::RigWeights weights(rig, DType::f16);
  return cases::make_time_mix7(weights, layer_shape(), false);
}

using Lengths = std::vector<int32_t>;

Lengths decode(size_t rows) { return Lengths(rows, 1); }

// Sequences that decode, and prompts beside them.
Lengths beside(size_t singles, const Lengths& prompts) {
  Lengths all = decode(singles);
  all.insert(all.end(), prompts.begin(), prompts.end());
  return all;
}

class GpuFused7 : public GpuTest, public testing::WithParamInterface<Lengths> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (shared_gpu() == nullptr) return;
    if (under_racecheck() && rows_ > 500) GTEST_SKIP() << "so many rows take minutes";
    made_.emplace(gpu(), 11);
    batch_ = rig().begin(GetParam(), kHeads, 64);
  }
  OpsRig& rig() { return *made_; }
  // The caller's rows: a step may have been padded with rows that share a slot.
  Doubles read(Tensor tensor) { return rig().read(tensor.slice_rows(0, rows_)); }
  Tensor rows_of(double low, double high) { return rig().tensor(batch_.rows, kWidth, low, high).tensor; }
  Tensor empty() { return rig().empty(batch_.rows, kWidth); }
  Projected7 projected() { return {empty(), empty(), empty(), empty(), empty(), empty(), empty()}; }

  std::optional<OpsRig> made_;
  Batch batch_;
  int64_t rows_ = std::accumulate(GetParam().begin(), GetParam().end(), int64_t{0});
};

TEST_P(GpuFused7, ProjectionsAgreeWithTheirComposition) {
  const TimeMix7 att = time_mix(rig());
  const Tensor mixed[6] = {rows_of(-1, 1), rows_of(-1, 1), rows_of(-1, 1),
                           rows_of(-1, 1), rows_of(-1, 1), rows_of(-1, 1)};
  for (const bool first_block : {false, true}) {
    const Tensor v_first = rows_of(-9, 9), v_first_want = rig().empty(batch_.rows, kWidth);
    gpu().lerp(v_first, v_first, v_first, v_first_want);  // a copy
    const Projected7 got = projected(), want = projected();
    gpu().rwkv7().project(batch_, att, mixed, first_block, v_first, got);
    cases::Composed7(gpu()).project(batch_, att, mixed, first_block, v_first_want, want);
    const auto expect = [&](Tensor one, Tensor other, const char* name) {
      support::expect_close(read(one), read(other), DType::f16, name);
    };
    expect(got.r, want.r, "r");
    expect(got.k, want.k, "k");
    if (!first_block) expect(got.v, want.v, "v");
    expect(got.g, want.g, "g");
    expect(got.u, want.u, "u");
    expect(got.kk, want.kk, "kk");
    expect(got.alpha, want.alpha, "alpha");
    expect(v_first, v_first_want, "v_first");
  }
}

TEST_P(GpuFused7, TimeMixAgreesWithItsComposition) {
  const TimeMix7 att = time_mix(rig());
  const std::array<Tensor, 6> mixed{rows_of(-1, 1), rows_of(-1, 1), rows_of(-1, 1),
                                    rows_of(-1, 1), rows_of(-1, 1), rows_of(-1, 1)};
  const auto before = rig().read_all_slots();
  for (const bool first_block : {false, true}) {
    const Tensor v_first = rows_of(-1, 1), y = empty(), got = empty(), want = empty();
    const auto work = [&](Tensor pending) { return Block7Work{mixed, v_first, {}, projected(), y, pending}; };
    const StateField wkv = rig().state().wkv(0);
    const auto states = [&] {
      Doubles all;
      for (const int32_t slot : rig().slots()) {
        const Doubles one = rig().read(wkv, slot, kWidth * 64);
        all.insert(all.end(), one.begin(), one.end());
      }
      return all;
    };
    gpu().rwkv7().time_mix(batch_, att, first_block, work(got), wkv);
    const Doubles got_state = states(), got_first = read(v_first);
    rig().write_all_slots(before);
    gpu().rwkv7().Islands7::time_mix(batch_, att, first_block, work(want), wkv);
    support::expect_close(read(got), read(want), DType::f16, "pending");
    support::expect_close(got_first, read(v_first), DType::f16, "v_first");
    support::expect_close(got_state, states(), DType::f16, "state");
    rig().write_all_slots(before);
  }
}

TEST_P(GpuFused7, EnterAgreesWithItsComposition) {
  const TimeMix7 att = time_mix(rig());
  const support::Made x = rig().tensor(batch_.rows, kWidth, gpu().residual_dtype(), -2, 2);
  const support::Made pending = rig().tensor(batch_.rows, kWidth);
  const auto before = rig().read_all_slots();
  const auto run = [&](bool own) {
    rig().write_all_slots(before);
    const Tensor residual = rig().same(x).tensor, addend = rig().same(pending).tensor;
    const Tensor mixed[6] = {empty(), empty(), empty(), empty(), empty(), empty()};
    const StateField shift = rig().state().att_shift(0);
    own ? gpu().rwkv7().enter(batch_, att, residual, addend, shift, mixed)
        : cases::Composed7(gpu()).enter(batch_, att, residual, addend, shift, mixed);
    std::vector<Doubles> all{read(residual)};
    for (const Tensor& one : mixed) all.push_back(read(one));
    for (const int32_t slot : rig().slots()) all.push_back(rig().read(shift, slot, kWidth));
    return all;
  };
  const auto got = run(true), want = run(false);
  for (size_t i = 0; i < want.size(); i++) {
    support::expect_close(got[i], want[i], DType::f16, "part " + std::to_string(i));
  }
}

TEST_P(GpuFused7, ChannelMixAgreesWithItsCompositionAndRepeatsItsBits) {
  support::RigWeights weights(rig(), DType::f16);
  const ChannelMix7 ffn = cases::make_channel_mix7(weights, layer_shape(), false);
  const support::Made x = rig().tensor(batch_.rows, kWidth, gpu().residual_dtype(), -2, 2);
  const support::Made pending = rig().tensor(batch_.rows, kWidth);
  const auto before = rig().read_all_slots();
  const auto run = [&](bool own) {
    const Tensor residual = rig().same(x).tensor, out = rig().same(pending).tensor;
    rig().write_all_slots(before);
    if (own)
      gpu().rwkv7().channel_mix(batch_, {}, ffn, residual, out, rig().state().ffn_shift(0), out);
    else
      cases::Composed7(gpu()).channel_mix(batch_, {}, ffn, residual, out, rig().state().ffn_shift(0), out);
    return std::pair(read(residual), read(out));
  };
  const auto got = run(true), want = run(false);
  support::expect_close(got.first, want.first, DType::f16, "x");
  support::expect_close(got.second, want.second, DType::f16, "pending");
  EXPECT_EQ(run(true).second, got.second);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, GpuFused7,
    testing::Values(decode(1), decode(2), decode(3), decode(5), decode(8), Lengths{2}, Lengths{4, 1, 3},
                    Lengths{8}, Lengths{3, 2, 2, 1}, Lengths{1, 6}, Lengths{2, 1, 3, 1, 4, 1, 1, 2, 1, 1},
                    Lengths{1, 1, 8, 2, 1, 5, 1, 1, 1}, Lengths{5, 2, 7}, decode(9), decode(31), decode(33),
                    decode(64), decode(65), decode(130), decode(200), decode(300), Lengths{200},
                    Lengths{17, 100, 33, 64}, Lengths{90, 1, 16}, Lengths{481, 3, 520}, Lengths{1025},
                    beside(12, {70, 2, 33}), beside(320, {64, 64, 64, 64}), decode(450)));

}  // namespace
}  // namespace fulmar
