// Half states of single rows go through a kernel of their own, in which a block has several states on their
// way; it gives what the kernel that takes any step gives, and the same beside a prompt that goes in chunks.
#include <fmt/core.h>

#include "gpu/gpu_device.h"
#include "rwkv6/islands.h"
#include "rwkv7/islands.h"
#include "support/ops_rig.h"

namespace fulmar {
namespace {

using support::Doubles;
using support::OpsRig;

// So many that a block goes round its stages more than once, and no whole number of rounds.
constexpr int64_t kHeads = 64, kWidth = kHeads * 64, kSingles = 45, kMostRows = 80;

struct HalfStateCase {
  int version;
  int32_t beside;  // rows of another sequence of the step
};

class GpuHalfState : public GpuTest, public testing::WithParamInterface<HalfStateCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (shared_gpu() == nullptr) return;
    auto opened = open_test_gpu({.half_state = true});
    ASSERT_TRUE(opened.ok());
    half_gpu_ = std::move(opened).value();
  }

  void recur(OpsRig& rig, const Batch& batch, Tensor y) {
    const auto rows = [&](int i) { return tensors_[static_cast<size_t>(i)].slice_rows(0, batch.rows); };
    const StateField wkv = rig.state().wkv(0);
    if (GetParam().version == 7) {
      TimeMix7 att;
      att.n_head = kHeads, att.head_size = 64;
      return half_gpu_->rwkv7().recur(batch, att,
                                      {rows(0), rows(1), rows(2), rows(3), rows(4), rows(5), rows(6)}, wkv,
                                      y.slice_rows(0, batch.rows));
    }
    TimeMix6 att;
    att.n_head = kHeads, att.head_size = 64;
    att.u = bonus_;
    half_gpu_->rwkv6().recur(batch, att, {rows(0), rows(1), rows(2), rows(3), rows(4)}, wkv,
                             y.slice_rows(0, batch.rows));
  }

  std::unique_ptr<Ops> half_gpu_;
  std::vector<Tensor> tensors_;  // of Projected7, or as many as Projected6 has
  Tensor bonus_;
};

TEST_P(GpuHalfState, SingleRowsAgreeWithAnyStep) {
  OpsRig rig(*half_gpu_, 21);
  for (int i = 0; i < 5; i++) tensors_.push_back(rig.tensor(kMostRows, kWidth).tensor);
  tensors_.push_back(rig.tensor(kMostRows, kWidth, -0.2, 0.2).tensor);  // kk
  tensors_.push_back(rig.tensor(kMostRows, kWidth, 0, 1).tensor);       // alpha
  bonus_ = rig.vector(1, kWidth).tensor;
  const Tensor y = rig.empty(kMostRows, kWidth);
  const auto found = [&] {
    Doubles all = rig.read(y.slice_rows(0, kSingles));
    for (int64_t i = 0; i < kSingles; i++) {
      const Doubles state = rig.read(rig.state().wkv(0), rig.slots()[static_cast<size_t>(i)], kWidth * 64);
      all.insert(all.end(), state.begin(), state.end());
    }
    return all;
  };

  std::vector<int32_t> lengths(kSingles, 1);
  lengths.push_back(GetParam().beside);
  const Batch any = rig.begin(lengths, kHeads, 64);
  ASSERT_EQ(rig.state().layout.wkv_dtype, DType::f16);
  const auto before = rig.read_all_slots();
  recur(rig, any, y);
  const Doubles want = found();

  rig.write_all_slots(before);
  const auto first = [](const std::vector<int32_t>& all, int64_t count) {
    return std::span(all).first(static_cast<size_t>(count));
  };
  const Batch singles = half_gpu_->begin_step({.token = first(rig.tokens(), kSingles),
                                               .start = first(rig.starts(), kSingles + 1),
                                               .slot = first(rig.slots(), kSingles),
                                               .wanted = first(rig.wanted(), kSingles)},
                                              rig.state());
  ASSERT_TRUE(singles.decode_only() && singles.rows <= kMostRows);
  recur(rig, singles, y);
  support::expect_close(found(), want, 1e-4, "outputs and states");
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuHalfState,
                         testing::Values(HalfStateCase{6, 2}, HalfStateCase{7, 2}, HalfStateCase{6, 33},
                                         HalfStateCase{7, 33}),
                         [](const auto& given) {
                           return fmt::format("rwkv{}_beside_{}_rows", given.param.version,
                                              given.param.beside);
                         });

}  // namespace
}  // namespace fulmar
