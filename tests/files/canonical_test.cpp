// Files in every naming give the tensors that were put in.
#include "files/canonical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "files/converted.h"
#include "files/file_builders.h"
#include "files/identify.h"
#include "files/safetensors.h"
#include "files/synthetic.h"

namespace fulmar {
namespace {

using namespace test;
using testing::HasSubstr;

SyntheticSpec spec_of(int version) {
  SyntheticSpec spec{.version = version, .n_layer = 2, .n_head = 2, .head_size = 16, .vocab = 40};
  spec.rank_w = 8, spec.rank_a = 4, spec.rank_v = 12, spec.rank_g = 20;
  spec.rank_mix = 8, spec.rank_decay = 12;
  return spec;
}

// Through a file, and back the same tensors under official names.
void expect_round_trip(const Checkpoint& official, const Converted& converted, const char* naming) {
  const TempFile file("", ".safetensors");
  ASSERT_TRUE(write_safetensors(file.path(), converted.tensors).ok());
  const Result<std::unique_ptr<Checkpoint>> read = open_checkpoint(file.path());
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_THAT((*read)->describe(), HasSubstr(naming));
  EXPECT_EQ((*read)->tensors().size(), official.tensors().size());
  for (const StoredTensor& tensor : official.tensors()) {
    const StoredTensor* back = (*read)->find(tensor.name);
    ASSERT_NE(back, nullptr) << tensor.name;
    EXPECT_EQ(back->count(), tensor.count()) << tensor.name;
    EXPECT_EQ(gather_contiguous(*back), gather_contiguous(tensor)) << tensor.name;
    if (is_low_rank(tensor.name)) {
      EXPECT_EQ(back->shape, tensor.shape) << tensor.name;
    }
  }
  const Result<ModelConfig> config = identify(**read);
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_TRUE(config->oddities.empty());
}

TEST(Canonical, OfficialNamesPass) {
  for (const int version : kVersions) {
    const auto official = synthetic_checkpoint(spec_of(version));
    Converted same;
    for (const StoredTensor& t : official->tensors()) same.add(t.name, t);
    expect_round_trip(*official, same, "official names");
  }
}

TEST(Canonical, WebRwkvNamesAndOrientation) {
  const auto v7 = synthetic_checkpoint(spec_of(7)), v6 = synthetic_checkpoint(spec_of(6));
  expect_round_trip(*v7, as_web_rwkv(*v7), "low-rank factors as web-rwkv stores them");
  expect_round_trip(*v6, as_web_rwkv(*v6), "web-rwkv names");
}

TEST(Canonical, WebRwkvNamesDecideWhereAllFactorsAreSquare) {
  SyntheticSpec spec = spec_of(6);
  spec.n_head = 5, spec.head_size = 8, spec.rank_mix = 8, spec.rank_decay = 40;
  const auto v6 = synthetic_checkpoint(spec);
  expect_round_trip(*v6, as_web_rwkv(*v6), "web-rwkv names");
}

TEST(Canonical, FlashLinearAttentionNames) {
  const auto v7 = synthetic_checkpoint(spec_of(7)), v6 = synthetic_checkpoint(spec_of(6));
  expect_round_trip(*v7, as_fla7(*v7, false), "flash-linear-attention RWKV-7");
  expect_round_trip(*v7, as_fla7(*v7, true), "flash-linear-attention RWKV-7");
  expect_round_trip(*v6, as_fla6(*v6), "flash-linear-attention RWKV-6");
}

TEST(Canonical, OfficialNamesBehindABody) {
  const auto v7 = synthetic_checkpoint(spec_of(7));
  for (const std::string prefix : {"model.", "rwkv7."}) {
    for (const std::string embedding : {"embeddings.weight", "emb.weight"}) {
      expect_round_trip(*v7, as_body(*v7, prefix, embedding), "official names behind");
    }
  }
  expect_round_trip(*v7, as_body(*v7, "", "embeddings.weight"), "official names");
}

TEST(Canonical, TransformersRwkv6Names) {
  const auto v6 = synthetic_checkpoint(spec_of(6));
  expect_round_trip(*v6, as_hf6(*v6), "Transformers RWKV-6 names");
}

TEST(Canonical, SixteenBitPthGivesViewsOfTheSameNumbers) {
  SyntheticSpec spec = spec_of(7);
  spec.dtype = DType::bf16;
  const auto official = synthetic_checkpoint(spec);
  const TempFile file(zip_of(pth_members(official->tensors())), ".pth");
  const Result<std::unique_ptr<Checkpoint>> read = open_checkpoint(file.path());
  ASSERT_TRUE(read.ok()) << read.error().text;
  for (const StoredTensor& tensor : official->tensors()) {
    EXPECT_EQ(gather_contiguous(*(*read)->find(tensor.name)), gather_contiguous(tensor));
  }
}

std::string error_of(std::vector<StoredTensor> tensors) {
  CheckpointParts parts;
  parts.tensors = std::move(tensors);
  const auto canonical = canonicalise(make_checkpoint(std::move(parts)));
  return canonical.ok() ? "(no error)" : canonical.error().text;
}

TEST(Canonical, FusedTensorsOfTheWrongShapeAreRefused) {
  const float zeros[64] = {};
  const StoredTensor r_k = tensor_over("model.layers.0.attn.r_k", DType::f32, {2, 4}, zeros);
  EXPECT_THAT(error_of({r_k, tensor_over("model.layers.0.attn.x_x", DType::f32, {5, 8}, zeros)}),
              HasSubstr("'model.layers.0.attn.x_x' has shape [5, 8]; wanted [6, C]"));
  EXPECT_THAT(error_of({tensor_over("model.layers.0.attn.x_proj.2.weight", DType::f32, {8, 7}, zeros)}),
              HasSubstr("wanted [C, 5*Rm]"));
  EXPECT_THAT(
      error_of({tensor_over("model.layers.0.attn.x_proj.0.linear.weight", DType::f32, {0, 8}, zeros)}),
      HasSubstr("wanted [5*Rm, C]"));
}

TEST(Canonical, TwoTensorsForOneNameAreRefused) {
  const float zeros[8] = {};
  EXPECT_THAT(error_of({tensor_over("model.layers.0.attn.r_k", DType::f32, {2, 4}, zeros),
                        tensor_over("blocks.0.att.r_k", DType::f32, {2, 4}, zeros)}),
              HasSubstr("two tensors stand for 'blocks.0.att.r_k'"));
}

}  // namespace
}  // namespace fulmar
