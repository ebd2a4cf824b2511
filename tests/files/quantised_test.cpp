// Quantising a checkpoint in memory, and GGUF files written from checkpoints.
#include "files/quantised.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>

#include "files/gguf.h"
#include "files/gguf_writer.h"
#include "files/identify.h"
#include "files/mapped_file.h"
#include "files/synthetic.h"
#include "support/shared_files.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

SyntheticSpec small(int version) {
  SyntheticSpec spec;
  spec.version = version;
  spec.n_layer = 2;
  spec.n_head = 4;
  spec.head_size = 32;
  spec.n_ffn = 256;
  spec.vocab = 300;
  spec.dtype = DType::f16;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_mix = 8;
  spec.rank_g = spec.rank_decay = 16;
  return spec;
}

std::vector<float> values_of(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  if (tensor.scales == nullptr) {
    copy_as_f32(tensor, values);
  } else {
    rows_as_f32({tensor.data, tensor.dtype, tensor.shape[0], tensor.shape[1], tensor.strides[0],
                 tensor.strides[1], tensor.scales, tensor.group},
                0, values);
  }
  return values;
}

TEST(Quantised, OnlyLargeMatricesOfBlocksAndTheHeadChange) {
  for (const int version : kVersions) {
    std::vector<QuantisedKind> kinds;
    const auto plain = synthetic_checkpoint(small(version));
    const auto made =
        quantise_checkpoint(synthetic_checkpoint(small(version)),
                            quantise_all(*quantisation_named("q4_0"), head_quantisation()), &kinds);
    ASSERT_TRUE(made.ok()) << made.error().text;
    ASSERT_TRUE(identify(**made).ok()) << identify(**made).error().text;
    for (const StoredTensor& tensor : (*made)->tensors()) {
      const StoredTensor& source = *plain->find(tensor.name);
      const bool matrix = tensor.name.ends_with(".weight") && tensor.shape.size() == 2;
      const DType wanted = !matrix || tensor.name == "emb.weight" ? source.dtype
                           : tensor.name == "head.weight"         ? DType::q8_0
                                                                  : DType::q4_0;
      EXPECT_EQ(tensor.dtype, wanted) << tensor.name;
      EXPECT_EQ(tensor.shape, source.shape);
      if (tensor.dtype == source.dtype) {
        EXPECT_EQ(values_of(tensor), values_of(source)) << tensor.name;
      }
    }
    ASSERT_FALSE(kinds.empty());
    for (const QuantisedKind& kind : kinds) {
      EXPECT_EQ(kind.matrices, kind.kind == "head.weight" ? 1 : 2) << kind.kind;
      EXPECT_DOUBLE_EQ(kind.bits, kind.kind == "head.weight" ? 8.5 : 4.5) << kind.kind;
      EXPECT_GT(kind.relative_rms, 0.001) << kind.kind;
      EXPECT_LT(kind.relative_rms, 0.12) << kind.kind;
    }
  }
}

TEST(Quantised, EveryKindIsNearItsSource) {
  const auto plain = synthetic_checkpoint(small(7));
  for (const Quantisation& quantisation : all_quantisations()) {
    const auto made = quantise_checkpoint(synthetic_checkpoint(small(7)), quantise_all(quantisation));
    ASSERT_TRUE(made.ok());
    const std::string name = "blocks.1.ffn.value.weight";
    const std::vector<float> got = values_of(*(*made)->find(name)), want = values_of(*plain->find(name));
    double error = 0, size = 0;
    for (size_t i = 0; i < want.size(); i++) {
      error += std::pow(static_cast<double>(got[i] - want[i]), 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_LT(std::sqrt(error / size), 0.35) << quantisation.name;
    EXPECT_GT(error, 0) << quantisation.name;
    EXPECT_EQ((*made)->find("head.weight")->dtype, DType::f16) << "kept";
  }
}

TEST(Quantised, NumbersThatAreNotFiniteAreRefusedByName) {
  const auto plain = synthetic_checkpoint(small(7));
  CheckpointParts parts;
  parts.tensors = plain->tensors();
  std::vector<std::byte> bad;
  for (StoredTensor& tensor : parts.tensors) {
    if (tensor.name != "blocks.1.att.key.weight") continue;
    bad.assign(tensor.data, tensor.data + tensor.bytes());
    const float infinity = std::numeric_limits<float>::infinity();
    from_f32({&infinity, 1}, tensor.dtype, bad.data() + 100);
    tensor.data = bad.data();
  }
  const auto made =
      quantise_checkpoint(make_checkpoint(std::move(parts)), quantise_all(*quantisation_named("q4_k")));
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().text, testing::HasSubstr("blocks.1.att.key.weight"));
}

class GgufWriting : public testing::Test {
 protected:
  ~GgufWriting() override { std::filesystem::remove(path_); }

  std::unique_ptr<Checkpoint> through_file(const Checkpoint& checkpoint, const StoredVocabulary* vocabulary) {
    const auto config = identify(checkpoint);
    EXPECT_TRUE(config.ok());
    GgufModelOptions options;
    options.name = "a test";
    options.vocabulary = vocabulary;
    const auto model = gguf_of(checkpoint, *config, options);
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().text);
    if (!model.ok()) return nullptr;
    const Status written = write_gguf(path_, model->keys, model->tensors);
    EXPECT_TRUE(written.ok());
    auto opened = open_checkpoint(path_);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().text);
    return opened.ok() ? std::move(*opened) : nullptr;
  }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("fulmar-gguf-" + std::to_string(::getpid()) + ".gguf");
};

TEST_F(GgufWriting, WhatIsWrittenIsReadBack) {
  for (const int version : kVersions) {
    const auto made = quantise_checkpoint(synthetic_checkpoint(small(version)),
                                          quantise_all(*quantisation_named("q4_k"), head_quantisation()));
    ASSERT_TRUE(made.ok());
    const StoredVocabulary vocabulary = {{1, "a"}, {2, "\n\n"}, {7, "\xe4\xbd"}};
    const auto back = through_file(**made, &vocabulary);
    ASSERT_NE(back, nullptr);
    ASSERT_TRUE(identify(*back).ok()) << identify(*back).error().text;
    for (const StoredTensor& tensor : (*made)->tensors()) {
      const StoredTensor* read = back->find(tensor.name);
      ASSERT_NE(read, nullptr) << tensor.name;
      EXPECT_EQ(values_of(*read), values_of(tensor)) << tensor.name;
      if (is_block(tensor.dtype)) {
        EXPECT_EQ(read->dtype, tensor.dtype) << tensor.name;
      }
    }
    ASSERT_NE(back->vocabulary(), nullptr);
    ASSERT_EQ(back->vocabulary()->size(), 3u);
    EXPECT_EQ(back->vocabulary()->at(2).id, 7);
    EXPECT_EQ(back->vocabulary()->at(2).bytes, "\xe4\xbd");
    EXPECT_EQ(back->metadata().at("general.name"), "a test");
    EXPECT_EQ(back->metadata().at("tokenizer.chat_template"), "rwkv-world");
  }
}

// What a file cannot hold of a model is named, never left out.
TEST_F(GgufWriting, TensorsWithoutANameInGgufAreRefused) {
  SyntheticSpec deep = small(7), tuned = small(6);
  deep.deep_embed_rank = 4;
  tuned.time_state = true;
  for (const auto& [spec, name] :
       {std::pair(deep, "blocks.0.ffn.s_emb.weight"), {tuned, "blocks.0.att.time_state"}}) {
    const auto checkpoint = synthetic_checkpoint(spec);
    const auto model = gguf_of(*checkpoint, *identify(*checkpoint), {});
    ASSERT_FALSE(model.ok()) << name;
    EXPECT_EQ(model.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(model.error().text, testing::HasSubstr(name));
  }
}

TEST_F(GgufWriting, EveryBlockFormatIsReadBackAsItself) {
  for (const Quantisation& quantisation : all_quantisations()) {
    if (!is_block(quantisation.dtype)) continue;
    const auto made = quantise_checkpoint(synthetic_checkpoint(small(7)), quantise_all(quantisation));
    ASSERT_TRUE(made.ok()) << quantisation.name;
    const auto back = through_file(**made, nullptr);
    ASSERT_NE(back, nullptr) << quantisation.name;
    const std::string name = "blocks.1.ffn.value.weight";
    const StoredTensor *wanted = (*made)->find(name), *read = back->find(name);
    ASSERT_NE(read, nullptr) << quantisation.name;
    EXPECT_EQ(read->dtype, wanted->dtype) << quantisation.name;
    EXPECT_EQ(values_of(*read), values_of(*wanted)) << quantisation.name;
  }
}

TEST_F(GgufWriting, CodesWithScalesBesideThemAreWrittenAsHalves) {
  const auto made =
      quantise_checkpoint(synthetic_checkpoint(small(7)), quantise_all(*quantisation_named("nf4")));
  ASSERT_TRUE(made.ok());
  const auto back = through_file(**made, nullptr);
  ASSERT_NE(back, nullptr);
  const StoredTensor &read = *back->find("blocks.1.att.key.weight"), &coded = *(*made)->find(read.name);
  ASSERT_EQ(coded.dtype, DType::nf4);
  EXPECT_EQ(read.dtype, DType::f16);
  const std::vector<float> got = values_of(read), want = values_of(coded);
  for (size_t i = 0; i < want.size(); i++) ASSERT_NEAR(got[i], want[i], 1e-3 * std::abs(want[i]) + 1e-7);
}

TEST_F(GgufWriting, HasTheTensorsOfAFileThatOthersWrote) {
  const auto original = support::shared_folder() / "models/gguf/fulmar-demo-Q4_K_M.gguf";
  if (!std::filesystem::exists(original)) GTEST_SKIP() << "no shared files beside this checkout";
  const auto opened = open_checkpoint(original);
  ASSERT_TRUE(opened.ok());
  ASSERT_NE(through_file(**opened, (*opened)->vocabulary()), nullptr);
  const auto theirs_file = MappedFile::open(original), ours_file = MappedFile::open(path_);
  ASSERT_TRUE(theirs_file.ok() && ours_file.ok());
  const auto theirs = read_gguf((*theirs_file)->bytes()), ours = read_gguf((*ours_file)->bytes());
  ASSERT_TRUE(theirs.ok() && ours.ok());
  std::map<std::string, const StoredTensor*> ours_by_name;
  for (const StoredTensor& tensor : ours->tensors) ours_by_name[tensor.name] = &tensor;
  EXPECT_EQ(ours->tensors.size(), theirs->tensors.size());
  for (const StoredTensor& tensor : theirs->tensors) {
    ASSERT_TRUE(ours_by_name.contains(tensor.name)) << tensor.name;
    const StoredTensor& written = *ours_by_name[tensor.name];
    EXPECT_EQ(written.shape, tensor.shape) << tensor.name;
    EXPECT_EQ(written.dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(std::vector(written.data, written.data + written.bytes()),
              std::vector(tensor.data, tensor.data + tensor.bytes()))
        << tensor.name;
  }
  for (const char* key :
       {"tokenizer.ggml.eot_token_id", "rwkv7.attention.gate_lora_rank", "rwkv7.block_count"}) {
    EXPECT_EQ(ours->integer(key), theirs->integer(key)) << key;
  }
}

}  // namespace
}  // namespace fulmar
