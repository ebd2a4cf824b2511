// Models are told apart by their tensors; everything else is refused with what was found and wanted.
#include "files/identify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "files/file_builders.h"
#include "files/synthetic.h"

namespace fulmar {
namespace {

using namespace test;
using testing::Contains;
using testing::HasSubstr;

const float kZeros[4096] = {};

SyntheticSpec spec_of(int version) {
  return {.version = version,
          .n_layer = 2,
          .n_head = 2,
          .head_size = 16,
          .vocab = 40,
          .rank_w = 8,
          .rank_a = 4,
          .rank_v = 12,
          .rank_g = 20,
          .rank_mix = 8,
          .rank_decay = 12};
}

using Change = std::function<void(std::vector<StoredTensor>&)>;

// A synthetic model with changed tensors.
Result<ModelConfig> identify_changed(const SyntheticSpec& spec, const Change& change) {
  const auto checkpoint = synthetic_checkpoint(spec);
  CheckpointParts parts;
  parts.tensors = checkpoint->tensors();
  change(parts.tensors);
  return identify(*make_checkpoint(std::move(parts)));
}

Change without(std::string name) {
  return
      [=](auto& tensors) { std::erase_if(tensors, [&](const StoredTensor& t) { return t.name == name; }); };
}

Change with(std::string name, std::vector<int64_t> shape, DType dtype = DType::f32) {
  return [=](auto& tensors) {
    without(name)(tensors);
    tensors.push_back(tensor_over(name, dtype, shape, kZeros));
  };
}

std::string error_of(const Result<ModelConfig>& config) {
  return config.ok() ? "(no error)" : config.error().text;
}

TEST(Identify, ReadsEverySizeOfVersion7) {
  const Result<ModelConfig> config = identify_changed(spec_of(7), [](auto&) {});
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_EQ(config->version, 7);
  EXPECT_FALSE(config->deep_embed);
  EXPECT_EQ(config->n_layer, 2);
  EXPECT_EQ(config->n_embd, 32);
  EXPECT_EQ(config->n_head, 2);
  EXPECT_EQ(config->head_size, 16);
  EXPECT_EQ(config->n_ffn, 128);
  EXPECT_EQ(config->vocab, 40);
  EXPECT_EQ(config->rank_w, 8);
  EXPECT_EQ(config->rank_a, 4);
  EXPECT_EQ(config->rank_v, 12);
  EXPECT_EQ(config->rank_g, 20);
  EXPECT_EQ(config->dtype, DType::f32);
  EXPECT_TRUE(config->oddities.empty());
}

TEST(Identify, ReadsEverySizeOfVersion6) {
  const Result<ModelConfig> config = identify_changed(spec_of(6), [](auto&) {});
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_EQ(config->version, 6);
  EXPECT_EQ(config->n_ffn, 96);
  EXPECT_EQ(config->rank_mix, 8);
  EXPECT_EQ(config->rank_decay, 12);
}

TEST(Identify, DeepEmbedAndSingleLayers) {
  SyntheticSpec spec = spec_of(7);
  spec.deep_embed_rank = 4;
  const Result<ModelConfig> deep = identify_changed(spec, [](auto&) {});
  ASSERT_TRUE(deep.ok()) << deep.error().text;
  EXPECT_TRUE(deep->deep_embed);
  EXPECT_EQ(deep->deep_embed_rank, 4);
  EXPECT_THAT(error_of(identify_changed(spec, without("blocks.1.ffn.s0"))),
              HasSubstr("blocks.1.ffn.s0 is missing"));
  spec = spec_of(7);
  spec.n_layer = 1;
  const Result<ModelConfig> single = identify_changed(spec, [](auto&) {});
  ASSERT_TRUE(single.ok()) << single.error().text;
  EXPECT_EQ(single->rank_v, 0);
}

TEST(Identify, ReleasedSizesHaveTheirParameterCounts) {
  SyntheticSpec spec = *synthetic_preset("rwkv6-1.6b");
  spec.n_layer = 1;
  spec.vocab = 64;
  const Result<ModelConfig> config = identify_changed(spec, [](auto&) {});
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_EQ(config->n_ffn, 7168);
  // 1,599,873,024 = 24 blocks + 2 * 65536 * 2048 + ln0 + ln_out.
  const int64_t outside = 2 * 2048 * 2;
  const int64_t block = config->parameters - 2 * 64 * 2048 - outside;
  EXPECT_EQ(24 * block + 2 * 65536 * 2048 + outside, 1'599'873'024);
}

TEST(Identify, VectorsMayHaveAnyUnitAxes) {
  EXPECT_TRUE(identify_changed(spec_of(7), with("blocks.0.att.x_r", {32})).ok());
  EXPECT_TRUE(identify_changed(spec_of(7), with("blocks.0.ln1.weight", {1, 32})).ok());
  EXPECT_FALSE(identify_changed(spec_of(7), with("blocks.0.att.x_r", {2, 16})).ok());
}

TEST(Identify, MissingAndMisshapenTensorsAreNamed) {
  struct Case {
    int version;
    Change change;
    const char* complaint;
  };
  const std::vector<Case> table = {
      {7, without("head.weight"), "tensor head.weight is missing; wanted shape [40, 32]"},
      {7, without("blocks.1.att.v2"), "tensor blocks.1.att.v2 is missing; wanted shape [12, 32]"},
      {7, without("blocks.0.ln0.bias"), "tensor blocks.0.ln0.bias is missing; wanted shape [32]"},
      {7, without("blocks.0.att.r_k"), "tensor blocks.0.att.r_k is missing"},
      {7, without("emb.weight"), "tensor emb.weight is missing"},
      {6, without("blocks.1.ffn.receptance.weight"), "tensor blocks.1.ffn.receptance.weight is missing"},
      {7, with("blocks.1.ffn.value.weight", {128, 32}), "has shape [128, 32]; wanted [32, 128]"},
      {7, with("blocks.1.att.w1", {8, 32}), "tensor blocks.1.att.w1 has shape [8, 32]; wanted [32, 8]"},
      {7, with("blocks.1.att.r_k", {32}), "has shape [32]; wanted [2, 16]"},
      {7, with("blocks.0.att.r_k", {3, 16}), "3 heads of 16 channels do not make the width 32"},
      {7, with("emb.weight", {0, 32}), "emb.weight has shape [0, 32]; wanted a matrix that is not empty"},
      {7, with("emb.weight", {32}), "emb.weight has shape [32]; wanted a matrix"},
      {6, with("blocks.0.att.time_maa_w1", {32, 41}), "has 41 columns; wanted a multiple of 5"},
      {6, with("blocks.1.att.time_maa_w2", {5, 32, 8}), "has shape [5, 32, 8]; wanted [5, 8, 32]"},
      {7, with("blocks.1.ln1.bias", {32}, DType::u8), "has type u8; wanted f32, f16 or bf16"},
      {7, with("blocks.7.ln1.bias", {32}), "tensor blocks.2.ln1.weight is missing"},
  };
  for (const Case& c : table) {
    const Result<ModelConfig> config = identify_changed(spec_of(c.version), c.change);
    EXPECT_THAT(error_of(config), HasSubstr(c.complaint));
  }
}

TEST(Identify, OtherArchitecturesAreRefusedByName) {
  struct Case {
    std::vector<std::string> names;
    const char* complaint;
  };
  const std::vector<Case> table = {
      {{"blocks.0.att.time_mix_k", "blocks.0.att.time_first"},
       "RWKV-4 is not supported (found blocks.0.att.time_mix_k"},
      {{"blocks.0.att.gate.weight", "blocks.0.att.ln_x.weight", "blocks.0.att.time_mix_k"},
       "RWKV-5 is not supported (found blocks.0.att.gate.weight without time_maa_*)"},
      {{"blocks.0.att.time_mix_k", "blocks.0.att.ln_x.weight"}, "RWKV-5 is not supported"},
      {{"blocks.0.att.r_k", "blocks.0.qkv.qq.weight"},
       "RWKV-7b, whose attention over earlier tokens (DEA) this program lacks, is not supported (found "
       "blocks.0.qkv.qq.weight)"},
      {{"blocks.0.att.r_k", "blocks.0.ffn.enn.weight"},
       "RWKV-8 is not supported (found blocks.0.ffn.enn.weight)"},
      {{"blocks.0.att.time_maa_x", "blocks.0.att.gate_w1"}, "x060a/b/c is not supported"},
      {{"blocks.0.att.time_maa_rkvw_w1"}, "x060a/b/c is not supported"},
      {{"blocks.0.att.time_state"}, "is a tuned state, not a model"},
      {{"model.layers.0.self_attn.q_proj.weight"}, "a Transformer"},
      {{"conv1.weight"},
       "is neither an RWKV-7 nor an RWKV-6 model (found 1 tensors, the first is conv1.weight [4])"},
  };
  for (const Case& c : table) {
    CheckpointParts parts;
    for (const std::string& name : c.names)
      parts.tensors.push_back(tensor_over(name, DType::f32, {4}, kZeros));
    const Result<ModelConfig> config = identify(*make_checkpoint(std::move(parts)));
    EXPECT_THAT(error_of(config), HasSubstr(c.complaint));
    ASSERT_FALSE(config.ok());
    EXPECT_EQ(config.error().kind, ErrorKind::unsupported);
  }
}

TEST(Identify, UnknownTensorsInsideBlocksAreRefusedOthersListed) {
  EXPECT_THAT(error_of(identify_changed(spec_of(7), with("blocks.1.att.extra", {3}))),
              HasSubstr("tensor blocks.1.att.extra [3] is not part of RWKV-7"));
  const Result<ModelConfig> outside = identify_changed(spec_of(7), with("value_head.weight", {3}));
  ASSERT_TRUE(outside.ok()) << outside.error().text;
  EXPECT_THAT(outside->oddities, Contains("value_head.weight [3] is not used"));
}

TEST(Identify, HarmlessOdditiesAreListed) {
  SyntheticSpec spec = spec_of(7);
  spec.time_state = true;
  const Result<ModelConfig> config = identify_changed(spec, [](auto& tensors) {
    with("blocks.0.att.v0", {1, 1, 32})(tensors);
    with("blocks.0.att.w0", {32}, DType::bf16)(tensors);
  });
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_TRUE(config->time_state);
  EXPECT_THAT(config->oddities, testing::ElementsAre(HasSubstr("v0/v1/v2"), HasSubstr("tuned initial state"),
                                                     HasSubstr("1 tensors (32 numbers) are bf16 among f32")));
}

}  // namespace
}  // namespace fulmar
