// Files that real programs wrote: they lie beside the repository on some machines only.
#include <gtest/gtest.h>

#include <filesystem>

#include "files/checkpoint.h"
#include "files/identify.h"
#include "support/folders.h"

namespace fulmar {
namespace {

std::filesystem::path models() { return support::source_folder() / "../shared/models"; }

class GenuineFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(models())) GTEST_SKIP() << models() << " is not there";
  }

  static std::unique_ptr<Checkpoint> open(const char* name) {
    Result<std::unique_ptr<Checkpoint>> checkpoint = open_checkpoint(models() / name);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().text;
    return checkpoint.ok() ? std::move(checkpoint).value() : nullptr;
  }
};

std::vector<float> values_of(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  copy_as_f32(tensor, values);
  return values;
}

// Same names, shapes and numbers, in any order and type.
void expect_equal(const Checkpoint& left, const Checkpoint& right) {
  ASSERT_EQ(left.tensors().size(), right.tensors().size());
  for (const StoredTensor& tensor : left.tensors()) {
    const StoredTensor* other = right.find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(tensor.shape, other->shape) << tensor.name;
    EXPECT_EQ(values_of(tensor), values_of(*other)) << tensor.name;
  }
}

ModelConfig config_of(const Checkpoint& checkpoint) {
  Result<ModelConfig> config = identify(checkpoint);
  EXPECT_TRUE(config.ok()) << config.error().text;
  return config.ok() ? *config : ModelConfig{};
}

TEST_F(GenuineFiles, SharedStoragesAndStridesGiveTheNumbersOfThePlainFile) {
  const auto pth = open("tiny-rwkv7.pth"), safetensors = open("tiny-rwkv7.safetensors");
  ASSERT_TRUE(pth && safetensors);
  expect_equal(*pth, *safetensors);
  EXPECT_FALSE(pth->find("head.weight")->contiguous());
  EXPECT_NE(pth->describe().find("zip archive"), std::string::npos);
}

TEST_F(GenuineFiles, TinyRwkv7IsIdentified) {
  const auto checkpoint = open("tiny-rwkv7.pth");
  ASSERT_TRUE(checkpoint);
  const ModelConfig config = config_of(*checkpoint);
  EXPECT_EQ(config.version, 7);
  EXPECT_EQ(config.n_layer, 12);
  EXPECT_EQ(config.n_embd, 64);
  EXPECT_EQ(config.n_head, 1);
  EXPECT_EQ(config.n_ffn, 256);
  EXPECT_EQ(config.rank_v, 32);
  EXPECT_EQ(config.parameters, 829'888);
  EXPECT_EQ(config.dtype, DType::bf16);
  EXPECT_TRUE(config.oddities.empty());
}

TEST_F(GenuineFiles, TinyRwkv6IsIdentified) {
  const auto checkpoint = open("tiny-rwkv6.safetensors");
  ASSERT_TRUE(checkpoint);
  const ModelConfig config = config_of(*checkpoint);
  EXPECT_EQ(config.version, 6);
  EXPECT_EQ(config.n_head, 16);
  EXPECT_EQ(config.head_size, 8);
  EXPECT_EQ(config.n_ffn, 448);
  EXPECT_EQ(config.rank_mix, 32);
  EXPECT_EQ(config.rank_decay, 64);
  EXPECT_EQ(config.parameters, 3'334'656);
}

TEST_F(GenuineFiles, BothFormsOfTheTrainedRwkv6HoldTheSameNumbers) {
  const auto pth = open("rwkv6-tiny-1m/rwkv6-tiny-1m-bf16.pth");
  const auto safetensors = open("rwkv6-tiny-1m/rwkv6-tiny-1m-f32.safetensors");
  ASSERT_TRUE(pth && safetensors);
  expect_equal(*pth, *safetensors);
  EXPECT_EQ(config_of(*pth).parameters, 1'028'352);
}

TEST_F(GenuineFiles, ReverseModelsAreIdentified) {
  for (const char* name : {"rwkv7-reverse/reverse-v64-f32.safetensors", "rwkv7-reverse/reverse-v64-f16.pth",
                           "rwkv7-reverse/reverse-v64-bf16.pth"}) {
    const auto checkpoint = open(name);
    ASSERT_TRUE(checkpoint);
    const ModelConfig config = config_of(*checkpoint);
    EXPECT_EQ(config.n_head, 2) << name;
    EXPECT_EQ(config.n_ffn, 512) << name;
  }
}

TEST_F(GenuineFiles, TorchTwoFileOfAnotherModelIsReadAndRefused) {
  const auto checkpoint = open("rwkv7-reverse/source-260123_reverse_L2_only_rwkv7.pth");
  ASSERT_TRUE(checkpoint);
  EXPECT_NE(checkpoint->find("rwkv1.r_k"), nullptr);
  const Result<ModelConfig> config = identify(*checkpoint);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().kind, ErrorKind::unsupported);
  EXPECT_NE(config.error().text.find("neither an RWKV-7 nor an RWKV-6"), std::string::npos);
}

}  // namespace
}  // namespace fulmar
