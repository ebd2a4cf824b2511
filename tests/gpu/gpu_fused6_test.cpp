// RWKV-6's fused kernels at the shapes where one gives way to the next, against the default composition of
// the same backend: one row, tiles with a remainder, many rows, odd ranks.
#include <numeric>
#include <optional>

#include "cases/composed.h"
#include "gpu/gpu_device.h"
#include "support/islands.h"

namespace fulmar {
namespace {

using support::Doubles;
using support::Made;
using support::OpsRig;
using Lengths = std::vector<int32_t>;

constexpr int64_t kHeads = 16, kWidth = kHeads * 64, kHidden = 1792, kMixRank = 40, kDecayRank = 136;

Lengths decode(size_t rows) { return Lengths(rows, 1); }

class GpuFused6 : public GpuTest, public testing::WithParamInterface<Lengths> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (shared_gpu() == nullptr) return;
    made_.emplace(gpu(), 12);
    batch_ = rig().begin(GetParam(), kHeads, 64);
  }
  OpsRig& rig() { return *made_; }
  // The caller's rows: a step may have been padded with rows that share a slot.
  Doubles read(Tensor tensor) { return rig().read(tensor.slice_rows(0, rows_)); }
  Tensor rows_of(double low, double high) { return rig().tensor(batch_.rows, kWidth, low, high).tensor; }
  Tensor empty() { return rig().empty(batch_.rows, kWidth); }
  static cases::LayerShape layer_shape() {
    cases::LayerShape shape{kHeads, 64, kHidden};
    shape.rank_mix = kMixRank;
    shape.rank_decay = kDecayRank;
    return shape;
  }
  TimeMix6 time_mix() {
    support::RigWeights weights(rig(), DType::f16);
    return cases::make_time_mix6(weights, layer_shape());
  }

  std::optional<OpsRig> made_;
  Batch batch_;
  int64_t rows_ = std::accumulate(GetParam().begin(), GetParam().end(), int64_t{0});
};

TEST_P(GpuFused6, MixesAgreeWithTheirComposition) {
  const TimeMix6 att = time_mix();
  const Made x = rig().tensor(batch_.rows, kWidth, gpu().residual_dtype(), -2, 2);
  const Tensor pending = rows_of(-1, 1);
  const auto before = rig().read_all_slots();
  const auto run = [&](bool own) {
    const Tensor residual = rig().same(x).tensor;
    const Tensor mixed[5] = {empty(), empty(), empty(), empty(), empty()};
    rig().write_all_slots(before);
    if (own)
      gpu().rwkv6().enter(batch_, att, residual, pending, rig().state().att_shift(0), mixed);
    else
      cases::Composed6(gpu()).enter(batch_, att, residual, pending, rig().state().att_shift(0), mixed);
    std::vector<Doubles> all{read(residual)};
    for (const Tensor& one : mixed) all.push_back(read(one));
    return all;
  };
  const auto got = run(true), want = run(false);
  for (size_t i = 0; i < got.size(); i++) {
    support::expect_close(got[i], want[i], DType::f16, "tensor " + std::to_string(i));
  }
  EXPECT_EQ(run(true), got);
}

TEST_P(GpuFused6, ProjectionsAgreeWithTheirComposition) {
  const TimeMix6 att = time_mix();
  const Tensor mixed[5] = {rows_of(-1, 1), rows_of(-1, 1), rows_of(-1, 1), rows_of(-1, 1), rows_of(-1, 1)};
  const auto projected = [&] { return Projected6{empty(), empty(), empty(), empty(), empty()}; };
  const Projected6 got = projected(), want = projected();
  gpu().rwkv6().project(batch_, att, mixed, got);
  cases::Composed6(gpu()).project(batch_, att, mixed, want);
  support::expect_close(read(got.r), read(want.r), DType::f16, "r");
  support::expect_close(read(got.k), read(want.k), DType::f16, "k");
  support::expect_close(read(got.v), read(want.v), DType::f16, "v");
  support::expect_close(read(got.g), read(want.g), DType::f16, "g");
  support::expect_close(read(got.u), read(want.u), DType::f16, "u");
}

TEST_P(GpuFused6, ChannelMixAgreesWithItsCompositionAndRepeatsItsBits) {
  support::RigWeights weights(rig(), DType::f16);
  const ChannelMix6 ffn = cases::make_channel_mix6(weights, layer_shape());
  const Made x = rig().tensor(batch_.rows, kWidth, gpu().residual_dtype(), -2, 2);
  const Made pending = rig().tensor(batch_.rows, kWidth);
  const auto before = rig().read_all_slots();
  const auto run = [&](bool own) {
    const Tensor residual = rig().same(x).tensor, out = rig().same(pending).tensor;
    rig().write_all_slots(before);
    if (own)
      gpu().rwkv6().channel_mix(batch_, ffn, residual, out, rig().state().ffn_shift(0), out);
    else
      cases::Composed6(gpu()).channel_mix(batch_, ffn, residual, out, rig().state().ffn_shift(0), out);
    return std::pair(read(residual), read(out));
  };
  const auto got = run(true), want = run(false);
  support::expect_close(got.first, want.first, DType::f16, "x");
  support::expect_close(got.second, want.second, DType::f16, "pending");
  EXPECT_EQ(run(true).second, got.second);
}

INSTANTIATE_TEST_SUITE_P(Rows, GpuFused6,
                         testing::Values(decode(1), decode(2), decode(8), decode(9), decode(31), decode(33),
                                         decode(64), decode(65), decode(200), Lengths{600},
                                         Lengths{17, 100, 1, 64},
                                         Lengths{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 40, 3}));

}  // namespace
}  // namespace fulmar
