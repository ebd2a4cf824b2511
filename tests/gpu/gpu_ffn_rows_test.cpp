// The feed-forward of two to eight rows in one kernel and a sum, against its composition on the same GPU: one
// to four pieces of inputs for a warp, blocks with one tile of hidden channels and with several, nothing kept
// and nearly all.
#include <cstring>
#include <optional>
#include <vector>

#include "cases/composed.h"
#include "gpu/gpu_device.h"
#include "support/islands.h"

namespace fulmar {
namespace {

using support::Doubles;
using support::OpsRig;

struct FfnShape {
  int64_t heads, hidden;
  size_t rows;
};
std::ostream& operator<<(std::ostream& to, const FfnShape& shape) {
  return to << shape.heads << " heads, " << shape.hidden << " hidden, " << shape.rows << " rows";
}

class GpuFfnRows : public GpuTest, public testing::WithParamInterface<FfnShape> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (shared_gpu() == nullptr) return;
    if (under_racecheck() && GetParam().heads > 16) GTEST_SKIP() << "such wide matrices take minutes";
    made_.emplace(gpu(), 5);
    batch_ = rig().begin(std::vector<int32_t>(GetParam().rows, 1), GetParam().heads, 64);
    support::RigWeights weights(rig(), DType::f16);
    ffn_ = cases::make_channel_mix7(weights, {GetParam().heads, 64, GetParam().hidden}, false);
  }
  OpsRig& rig() { return *made_; }
  int64_t width() const { return GetParam().heads * 64; }

  // What channel_mix7 leaves behind, by the GPU's own way or by the composition.
  Doubles mix(const support::Made& x, bool own) {
    rig().write_all_slots(states_);
    const Tensor residual = rig().same(x).tensor, out = rig().empty(batch_.rows, width());
    const StateField shift = rig().state().ffn_shift(0);
    own ? gpu().rwkv7().channel_mix(batch_, {}, ffn_, residual, {}, shift, out)
        : cases::Composed7(gpu()).channel_mix(batch_, {}, ffn_, residual, {}, shift, out);
    return rig().read(out.slice_rows(0, static_cast<int64_t>(GetParam().rows)));
  }
  void expect_agreement() {
    const support::Made x = rig().tensor(batch_.rows, width(), gpu().residual_dtype(), -2, 2);
    states_ = rig().read_all_slots();
    const Doubles got = mix(x, true);
    support::expect_close(got, mix(x, false), DType::f16, "out");
    EXPECT_EQ(mix(x, true), got);
  }

  std::optional<OpsRig> made_;
  Batch batch_;
  ChannelMix7 ffn_;
  decltype(std::declval<OpsRig&>().read_all_slots()) states_;
};

TEST_P(GpuFfnRows, AgreesWithItsCompositionAndRepeatsItsBits) { expect_agreement(); }

// A key matrix of zeros but for some rows: hidden channels that relu² leaves nothing of, in all blocks or in
// most.
TEST_P(GpuFfnRows, AgreesWhereLittleOrNothingIsKept) {
  const auto [heads, hidden, rows] = GetParam();
  std::vector<uint16_t> key(static_cast<size_t>(hidden * width()));
  for (const int64_t every : {int64_t{0}, int64_t{37}}) {
    for (int64_t f = 0; every > 0 && f < hidden; f += every) {
      for (int64_t c = 0; c < width(); c++) {
        key[static_cast<size_t>(f * width() + c)] = (f + c) % 3 == 0 ? 0x2c00 : 0xa800;  // 1/16, -1/32
      }
    }
    const HostMatrix matrix{
        reinterpret_cast<const std::byte*>(key.data()), DType::f16, hidden, width(), width(), 1};
    auto imported = gpu().import_weight(matrix, WeightRole::ffn_key);
    ASSERT_TRUE(imported.ok());
    ffn_.key = *imported;
    expect_agreement();
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuFfnRows,
                         testing::Values(FfnShape{4, 1024, 2}, FfnShape{12, 3072, 3}, FfnShape{12, 3072, 8},
                                         FfnShape{16, 4352, 5}, FfnShape{32, 7168, 4}, FfnShape{40, 8960, 7},
                                         FfnShape{64, 4608, 2}, FfnShape{64, 4608, 8}));

}  // namespace
}  // namespace fulmar
