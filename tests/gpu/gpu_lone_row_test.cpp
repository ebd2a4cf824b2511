// Steps of a lone row in whole RWKV-7 models of all widths that releases have, against the CPU in f32: from
// the very first token on, and to equal bits whether launched or replayed.
#include "cpu/cpu_ops.h"
#include "files/synthetic.h"
#include "gpu/gpu_device.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::ModelRig;
using support::relative_error;
using Logits = std::vector<std::vector<float>>;

SyntheticSpec spec_of(int64_t heads, DType dtype = DType::f16) {
  SyntheticSpec spec;
  spec.n_layer = 2;
  spec.n_head = heads;
  spec.head_size = 64;
  spec.vocab = 1028;
  spec.rank_w = 64;
  spec.rank_a = 192;
  spec.rank_v = 32;
  spec.rank_g = heads < 64 ? 120 : 480;
  spec.dtype = dtype;
  return spec;
}

constexpr int kTokens = 5;
// Root mean square, relative to the logits' deviation: of steps that keep f32 between kernels, of those that
// keep two numbers of 8 bits, and of those that round to 16 bits.
constexpr double kLoneError = 1e-4, kLoneErrorBf16 = 1e-3, kLogitError = 1e-2;

Logits decode(ModelRig& rig) {
  Logits out;
  rig.pool().zero(1);
  for (int32_t token = 0; token < kTokens; token++) out.push_back(rig.feed(1, {token * 37 + 5}));
  return out;
}

class GpuLoneRow : public GpuTest, public testing::WithParamInterface<int64_t> {};

void expect_agreement(const SyntheticSpec& spec, Ops& gpu, double most) {
  if (without_matrix_units()) most = kLogitError;
  const std::unique_ptr<Ops> cpu = make_cpu_ops({.threads = 0});
  Logits want;
  {
    ModelRig rig(synthetic_checkpoint(spec), *cpu, 2);
    ASSERT_TRUE(rig.loaded());
    want = decode(rig);
  }
  ModelRig rig(synthetic_checkpoint(spec), gpu, 2);
  ASSERT_TRUE(rig.loaded());
  const Logits got = decode(rig);
  for (size_t i = 0; i < got.size(); i++) {
    EXPECT_LT(relative_error(got[i], want[i]), most) << "token " << i;
  }
  EXPECT_EQ(decode(rig), got);
}

TEST_P(GpuLoneRow, AgreesWithTheCpuFromTheFirstTokenOnAndRepeatsItsBits) {
  expect_agreement(spec_of(GetParam()), gpu(), kLoneError);
}

TEST_F(GpuTest, ALoneRowInBf16AgreesWithTheCpu) {
  auto bf16 = open_test_gpu({.activation = DType::bf16});
  ASSERT_TRUE(bf16.ok()) << bf16.error().text;
  const std::unique_ptr<Ops> ops = std::move(bf16).value();
  expect_agreement(spec_of(12, DType::bf16), *ops, kLoneErrorBf16);
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

// The weights of a checkpoint with every ln2.weight so many times as large.
std::unique_ptr<Checkpoint> with_loud_feed_forward(const SyntheticSpec& spec, float times) {
  std::shared_ptr<Checkpoint> made = synthetic_checkpoint(spec);
  CheckpointParts parts{.tensors = made->tensors(), .owners = {made}};
  for (StoredTensor& tensor : parts.tensors) {
    if (!tensor.name.ends_with(".ln2.weight")) continue;
    auto scaled = std::make_shared<std::vector<float>>(static_cast<size_t>(tensor.count()));
    copy_as_f32(tensor, *scaled);
    for (float& x : *scaled) x *= times;
    tensor.dtype = DType::f32;
    tensor.strides = row_major_strides(tensor.shape);
    tensor.data = reinterpret_cast<const std::byte*>(scaled->data());
    parts.owners.push_back(std::move(scaled));
  }
  return make_checkpoint(std::move(parts));
}

// relu² of more than 256 is beyond f16, in which two rows and more hand it on: one row clips it alike.
TEST_F(GpuTest, ALoneRowClipsReluSquaredAsSeveralRowsDo) {
  const SyntheticSpec spec = spec_of(12);
  constexpr float kTimes = 150;
  ModelRig alone(with_loud_feed_forward(spec, kTimes), gpu(), 3),
      among(with_loud_feed_forward(spec, kTimes), gpu(), 3);
  ASSERT_TRUE(alone.loaded() && among.loaded());
  for (ModelRig* rig : {&alone, &among}) {
    rig->pool().zero(0);
    rig->pool().zero(1);
  }
  for (int32_t token = 0; token < kTokens; token++) {
    const std::vector<support::Feed> both{{0, {token}}, {1, {token}}};
    EXPECT_LT(relative_error(alone.feed(1, {token}), among.step(both)[1]), kLogitError) << "token " << token;
  }
}

}  // namespace
}  // namespace fulmar
