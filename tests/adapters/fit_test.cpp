// What fits no model is refused with both shapes; MiSS mini is expanded.
#include "adapters/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fulmar {
namespace {

using testing::HasSubstr;

BaseShapes small_base() {
  BaseShapes base{7, 2, 2, 2, false, {}};
  base.tensors = {{"emb.weight", {10, 4}},
                  {"blocks.0.att.key.weight", {4, 4}},
                  {"blocks.0.ffn.key.weight", {6, 4}},
                  {"blocks.0.att.v1", {4, 2}},
                  {"blocks.1.att.v1", {4, 2}},
                  {"blocks.0.att.r_k", {2, 2}},
                  {"blocks.0.att.x_r", {1, 1, 4}}};
  return base;
}

HostTensor zeros(std::vector<int64_t> shape) {
  HostTensor tensor{DType::f32, std::move(shape), {}};
  tensor.bytes.resize(static_cast<size_t>(tensor.count()) * 4);
  return tensor;
}

std::string error_of(Delta delta, const BaseShapes& base = small_base()) {
  Adapter adapter;
  adapter.deltas.push_back(std::move(delta));
  const Status fitted = fit_adapter(adapter, base);
  return fitted.ok() ? "" : fitted.error().text;
}

Delta pair(const std::string& weight, int64_t out, int64_t in, DeltaKind kind = DeltaKind::low_rank) {
  Delta delta;
  delta.weight = weight;
  delta.kind = kind;
  delta.a = zeros({3, in});
  delta.b = zeros({out, 3});
  return delta;
}

TEST(FitAdapter, MiniIsRepeatedAlongTheOutputs) {
  Adapter adapter;
  Delta delta;
  delta.weight = "blocks.0.ffn.key.weight";
  delta.kind = DeltaKind::miss;
  delta.mini = true;
  delta.d = host_tensor({1, 2, 3, 4}, {2, 2}, DType::f16);
  adapter.deltas.push_back(delta);
  ASSERT_TRUE(fit_adapter(adapter, small_base()).ok());
  EXPECT_EQ(adapter.deltas[0].d.shape, (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(adapter.deltas[0].d.floats(), (std::vector<float>{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}));
  EXPECT_EQ(adapter.deltas[0].inputs, 4);
  delta.d = zeros({2, 4});
  EXPECT_THAT(error_of(delta), HasSubstr("MiSS mini is [2, 4]; the model wants columns that divide 6"));
}

TEST(FitAdapter, LowRankPartsAndTheEmbeddingLieTheOtherWayRound) {
  EXPECT_EQ(error_of(pair("blocks.1.att.v1", 2, 4)), "");
  EXPECT_THAT(error_of(pair("blocks.1.att.v1", 4, 2)), HasSubstr("A is [3, 2]; the model wants [r, 4]"));
  EXPECT_EQ(error_of(pair("emb.weight", 4, 10)), "");
  EXPECT_THAT(error_of(pair("emb.weight", 4, 10, DeltaKind::dora_out)), HasSubstr("takes LoRA"));
  BaseShapes normed = small_base();
  normed.embedding_normed = true;
  EXPECT_THAT(error_of(pair("emb.weight", 4, 10), normed), HasSubstr("includes ln0"));
}

TEST(FitAdapter, WhatNoForwardReadsIsRefused) {
  EXPECT_THAT(error_of(pair("blocks.0.att.v1", 2, 4)),
              HasSubstr("'blocks.0.att.v1' is in the model's file and never"));
  EXPECT_THAT(error_of(pair("blocks.0.att.r_k", 2, 2)), HasSubstr("is no matrix of a product"));
  EXPECT_THAT(error_of(pair("blocks.0.att.x_r", 2, 2)), HasSubstr("[1, 1, 4] is no matrix"));
  EXPECT_THAT(error_of(pair("blocks.00.att.key.weight", 4, 4)), HasSubstr("the model has no tensor"));
}

TEST(FitAdapter, TheMagnitudeHasTheSizeOfItsSide) {
  Delta delta = pair("blocks.0.ffn.key.weight", 6, 4, DeltaKind::dora_in);
  delta.m = zeros({1, 4});
  EXPECT_EQ(error_of(delta), "");
  delta.kind = DeltaKind::dora_out;
  EXPECT_THAT(error_of(delta), HasSubstr("the magnitude is [1, 4]; the model wants [6]"));
}

}  // namespace
}  // namespace fulmar
