// Steps of a lone row in whole RWKV-7 models of all widths that releases have, against the CPU: from the very
// first token on where the layers are few, and to equal bits whether launched or replayed.
#include "cpu/cpu_ops.h"
#include "files/synthetic.h"
#include "gpu/gpu_device.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::ModelRig;
using support::relative_error;
using Logits = std::vector<std::vector<float>>;

SyntheticSpec spec_of(int64_t heads) {
  SyntheticSpec spec;
  spec.n_layer = 2;
  spec.n_head = heads;
  spec.head_size = 64;
  spec.vocab = 1028;
  spec.rank_w = 64;
  spec.rank_a = 192;
  spec.rank_v = 32;
  spec.rank_g = heads < 64 ? 120 : 480;
  spec.dtype = DType::f16;
  return spec;
}

constexpr int kTokens = 5;
constexpr double kLogitError = 1e-2;  // root mean square, relative to the logits' deviation

Logits decode(ModelRig& rig) {
  Logits out;
  rig.pool().zero(1);
  for (int32_t token = 0; token < kTokens; token++) out.push_back(rig.feed(1, {token * 37 + 5}));
  return out;
}

class GpuLoneRow : public GpuTest, public testing::WithParamInterface<int64_t> {};

TEST_P(GpuLoneRow, AgreesWithTheCpuFromTheFirstTokenOnAndRepeatsItsBits) {
  const std::unique_ptr<Ops> cpu = make_cpu_ops({.threads = 0});
  Logits want;
  {
    ModelRig rig(synthetic_checkpoint(spec_of(GetParam())), *cpu, 2);
    ASSERT_TRUE(rig.loaded());
    want = decode(rig);
  }
  ModelRig rig(synthetic_checkpoint(spec_of(GetParam())), gpu(), 2);
  ASSERT_TRUE(rig.loaded());
  const Logits got = decode(rig);
  for (size_t i = 0; i < got.size(); i++) {
    EXPECT_LT(relative_error(got[i], want[i]), kLogitError) << "token " << i;
  }
  EXPECT_EQ(decode(rig), got);
}

INSTANTIATE_TEST_SUITE_P(Heads, GpuLoneRow, testing::Values(4, 8, 12, 16, 20, 32, 40, 64));

// Prompts and steps of two rows take other ways than steps of one.
TEST_F(GpuTest, ALoneRowContinuesWhatOthersBegan) {
  const std::unique_ptr<Ops> cpu = make_cpu_ops({.threads = 0});
  ModelRig want(synthetic_checkpoint(spec_of(12)), *cpu, 3), got(synthetic_checkpoint(spec_of(12)), gpu(), 3);
  ASSERT_TRUE(want.loaded() && got.loaded());
  for (ModelRig* rig : {&want, &got}) {
    rig->pool().zero(0);
    rig->pool().zero(1);
    rig->feed(1, {3, 5, 7, 11, 13});
    rig->step({{0, {17}}, {1, {19}}});
  }
  for (int32_t token = 0; token < kTokens; token++) {
    EXPECT_LT(relative_error(got.feed(1, {token}), want.feed(1, {token})), kLogitError) << "token " << token;
  }
  const std::vector<support::Feed> both{{0, {1}}, {1, {2}}};
  EXPECT_LT(relative_error(got.step(both)[1], want.step(both)[1]), kLogitError);
}

}  // namespace
}  // namespace fulmar
