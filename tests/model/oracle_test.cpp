// Small synthetic models against the independent double-precision forward, and what must not change a
// sequence: chunking, packing with neighbours, saving and restoring. Needs no file.
#include <gtest/gtest.h>

#include "cpu/cpu_ops.h"
#include "files/synthetic.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::Feed;
using support::ModelRig;
using support::random_tokens;
using support::small_spec;

struct Shape {
  const char* name;
  SyntheticSpec spec;
};

SyntheticSpec deep(SyntheticSpec spec) {
  spec.deep_embed_rank = 8;
  return spec;
}

const Shape kShapes[] = {
    {"Rwkv7OneHead", small_spec(7, 1, 64)},         {"Rwkv7FourHeads", small_spec(7, 4, 64)},
    {"Rwkv7SmallHeads", small_spec(7, 6, 16)},      {"Rwkv7a", deep(small_spec(7, 2, 32))},
    {"Rwkv7f16", small_spec(7, 2, 64, DType::f16)}, {"Rwkv7bf16", small_spec(7, 2, 64, DType::bf16)},
    {"Rwkv6OneHead", small_spec(6, 1, 64)},         {"Rwkv6FourHeads", small_spec(6, 4, 64)},
    {"Rwkv6SmallHeads", small_spec(6, 16, 8)},      {"Rwkv6f16", small_spec(6, 2, 64, DType::f16)},
};

// Weights of 16 bits are widened exactly, so that only the sums differ from the oracle, whatever the type.
constexpr double kTolerance = 1e-4;

class Oracle : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    ops_ = make_cpu_ops({.threads = 2});
    rig_ = std::make_unique<ModelRig>(synthetic_checkpoint(GetParam().spec), *ops_, 6);
    ASSERT_TRUE(rig_->loaded());
  }

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<ModelRig> rig_;
};

TEST_P(Oracle, LogitsHiddenAndStateAgree) {
  const support::ReferenceModel reference(support::named_tensors(*synthetic_checkpoint(GetParam().spec)));
  const std::vector<int32_t> tokens = random_tokens(37, 1);
  support::ReferenceState state = reference.zero_state();
  const auto want = reference.forward(tokens, state);

  std::vector<int32_t> start{0, 37}, slot{2}, wanted;
  for (int32_t row = 0; row < 37; row++) wanted.push_back(row);
  const Tensor logits = rig_->model().forward({tokens, start, slot, wanted}, rig_->pool());
  for (int64_t row = 0; row < 37; row++) {
    std::vector<float> got(static_cast<size_t>(logits.cols));
    ops_->read(got.data(), logits.row<float>(row), got.size() * sizeof(float));
    ASSERT_LT(support::max_difference(got, want[static_cast<size_t>(row)]), kTolerance) << "row " << row;
  }
  const Tensor hidden = rig_->model().hidden();
  ASSERT_EQ(hidden.rows, 37);
  const std::vector<float> last(hidden.row<float>(36), hidden.row<float>(36) + hidden.cols);
  EXPECT_LT(support::max_difference(last, reference.last_hidden()), kTolerance);

  const StateLayout layout = rig_->model().state_layout();
  for (int64_t l = 0; l < layout.n_layer; l++) {
    const auto& layer = state[static_cast<size_t>(l)];
    const auto near = [&](size_t offset, const std::vector<double>& part) {
      const auto got = rig_->state_part(2, offset, static_cast<int64_t>(part.size()));
      for (size_t i = 0; i < part.size(); i++) ASSERT_NEAR(got[i], part[i], kTolerance) << "layer " << l;
    };
    near(layout.offset(l, kAttShift), layer.att_shift);
    near(layout.offset(l, kFfnShift), layer.ffn_shift);
    near(layout.offset(l, kWkv), layer.wkv);
  }
}

TEST_P(Oracle, ChunksChangeNothing) {
  const std::vector<int32_t> tokens = random_tokens(67, 2);
  const std::vector<float> whole = rig_->feed(0, tokens);
  for (const int64_t chunk : {1, 15, 16, 17, 40}) {
    rig_->pool().zero(1);
    EXPECT_LT(support::max_difference(rig_->feed(1, tokens, chunk), whole), kTolerance)
        << "chunks of " << chunk;
  }
}

TEST_P(Oracle, LongSequenceEqualsTokenByToken) {
  const std::vector<int32_t> tokens = random_tokens(300, 3);
  const std::vector<float> whole = rig_->feed(0, tokens);
  EXPECT_LT(support::max_difference(rig_->feed(1, tokens, 1), whole), kTolerance);
}

TEST_P(Oracle, NeighboursChangeNothing) {
  // Ragged lengths, slots out of order, the last slot among them; then a decode step of all, then a mixture.
  const std::vector<Feed> prompts = {{5, random_tokens(17, 4)},
                                     {0, random_tokens(1, 5)},
                                     {3, random_tokens(40, 6)},
                                     {1, random_tokens(15, 7)}};
  const std::vector<Feed> decodes = {{0, {3}}, {1, {4}}, {3, {5}}, {5, {6}}};
  const std::vector<Feed> mixture = {{1, {7}}, {3, random_tokens(16, 8)}, {5, {8}}};
  std::vector<std::vector<std::vector<float>>> together;
  for (const auto& feeds : {prompts, decodes, mixture}) together.push_back(rig_->step(feeds));
  for (int64_t slot = 0; slot < 6; slot++) rig_->pool().zero(slot);
  size_t at = 0;
  for (const auto& feeds : {prompts, decodes, mixture}) {
    for (size_t i = 0; i < feeds.size(); i++) {
      const std::vector<float> alone = rig_->feed(feeds[i].slot, feeds[i].tokens);
      EXPECT_LT(support::max_difference(together[at][i], alone), kTolerance)
          << "step " << at << ", part " << i;
    }
    at++;
  }
}

TEST_P(Oracle, SavedAndRestoredGoesOnAsIfNothingHappened) {
  const std::vector<int32_t> tokens = random_tokens(20, 9);
  rig_->feed(0, tokens);
  const std::vector<std::byte> saved = rig_->pool().read(0);
  const std::vector<float> uninterrupted = rig_->feed(0, {1, 2, 3});
  ASSERT_TRUE(rig_->pool().set(4, saved).ok());
  EXPECT_EQ(rig_->feed(4, {1, 2, 3}), uninterrupted);
  rig_->pool().copy(4, 2);
  EXPECT_EQ(rig_->pool().read(2), rig_->pool().read(0));
}

TEST_P(Oracle, StepWithoutWantedRowsStillFeedsTheState) {
  const std::vector<int32_t> tokens = random_tokens(9, 10), start{0, 9}, slot{1};
  const Tensor none = rig_->model().forward({tokens, start, slot, {}}, rig_->pool());
  EXPECT_EQ(none.rows, 0);
  rig_->feed(0, tokens);
  EXPECT_EQ(rig_->pool().read(1), rig_->pool().read(0));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Oracle, testing::ValuesIn(kShapes),
                         [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace fulmar
