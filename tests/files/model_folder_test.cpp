// Folders and repositories: every form gives the tensors that were put in, and a broken one is one clear
// error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/checkpoint.h"
#include "files/hub_facts.h"
#include "files/identify.h"
#include "files/model_files.h"
#include "files/repository_writer.h"
#include "files/synthetic.h"

namespace fulmar {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Checkpoint> small_model() {
  return synthetic_checkpoint({.version = 7,
                               .n_layer = 2,
                               .n_head = 2,
                               .head_size = 16,
                               .vocab = 40,
                               .rank_w = 8,
                               .rank_a = 4,
                               .rank_v = 12,
                               .rank_g = 20});
}

std::string error_of(const std::filesystem::path& path) {
  const auto opened = open_checkpoint(path);
  if (!opened.ok()) return opened.error().text;
  const auto config = identify(**opened);
  return config.ok() ? "(no error)" : config.error().text;
}

void expect_same(const Checkpoint& official, const std::filesystem::path& path, bool fused = false) {
  const auto opened = open_checkpoint(path);
  ASSERT_TRUE(opened.ok()) << opened.error().text;
  const auto config = identify(**opened);
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_EQ(config->embedding_normed, fused);
  for (const StoredTensor& tensor : official.tensors()) {
    const StoredTensor* back = (*opened)->find(tensor.name);
    if (fused && tensor.name.find("ln0") != std::string::npos) {
      EXPECT_EQ(back, nullptr);
      continue;
    }
    ASSERT_NE(back, nullptr) << tensor.name;
    EXPECT_EQ(gather_contiguous(*back), gather_contiguous(tensor)) << tensor.name;
  }
}

TEST(ModelFolder, OfficialRepositoriesOfEveryForm) {
  const auto official = small_model();
  for (const std::string prefix : {"model.", "rwkv7."}) {
    for (const std::string embedding : {"embeddings.weight", "emb.weight"}) {
      for (const size_t shards : {1, 3}) {
        for (const bool index : {true, false}) {
          for (const bool fused : {true, false}) {
            const TempFolder folder;
            write_repository(
                folder, *official,
                {.prefix = prefix, .embedding = embedding, .shards = shards, .index = index, .fused = fused});
            expect_same(*official, folder.path(), fused);
          }
        }
      }
    }
  }
}

TEST(ModelFolder, TheOnlyFileOfAFolderIsItsModel) {
  const auto official = small_model();
  {
    const TempFolder folder;
    folder.write("rwkv7-g1.pth", zip_of(pth_members(official->tensors())));
    folder.write("some.state.pth", "a tuned state");
    folder.write("README.md", "words");
    expect_same(*official, folder.path());
  }
  const TempFolder folder;
  write_shards(folder, as_fla7(*official, false), 2, true);
  expect_same(*official, folder.path());
}

TEST(ModelFolder, AnIndexStandsForItsFolderAndTheUsualNameForItsRepository) {
  const auto official = small_model();
  const TempFolder sharded, single;
  write_repository(sharded, *official, {.shards = 2});
  expect_same(*official, sharded.path() / "model.safetensors.index.json");
  write_repository(single, *official, {.shards = 1, .index = false, .fused = true});
  expect_same(*official, single.path() / "model.safetensors", true);
}

TEST(ModelFolder, SeveralModelsAreNamedInOneError) {
  const TempFolder folder;
  folder.write("a.pth", "x");
  folder.write("b.safetensors", "x");
  folder.write("c-00001-of-00002.gguf", "x");
  folder.write("c-00002-of-00002.gguf", "x");
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("several models there (a.pth, b.safetensors, c-00001-of-00002.gguf); name one"));
}

TEST(ModelFolder, AFolderWithoutWeightsSaysWhatWasWanted) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  EXPECT_THAT(error_of(folder.path()),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("no weights there")));
}

TEST(ModelFolder, ShardsOfAGgufFileAreItsReadersBusiness) {
  const TempFolder folder;
  folder.write("m-00001-of-00002.gguf", "x");
  folder.write("m-00002-of-00002.gguf", "x");
  const auto files = find_model_files(folder.path());
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_THAT(files->weights, ElementsAre(folder.path() / "m-00001-of-00002.gguf"));
}

TEST(ModelFolder, AMissingShardIsNamed) {
  const auto official = small_model();
  for (const bool index : {true, false}) {
    const TempFolder folder;
    write_repository(folder, *official, {.shards = 3, .index = index});
    std::filesystem::remove(folder.path() / shard_name_of(2, 3));
    EXPECT_THAT(error_of(folder.path()), HasSubstr("'model-00002-of-00003.safetensors'")) << index;
  }
}

TEST(ModelFolder, AnIndexThatDisagreesIsRefused) {
  const auto official = small_model();
  const TempFolder folder;
  const auto right = write_repository(folder, *official, {.shards = 2});
  const auto with = [&](auto change) {
    auto wrong = right;
    change(wrong);
    folder.write("model.safetensors.index.json", index_of(wrong));
    return error_of(folder.path());
  };
  EXPECT_THAT(with([](auto& map) { map["model.more"] = shard_name_of(1, 2); }),
              HasSubstr("says that 'model.more' lies in model-00001-of-00002.safetensors; found it in none"));
  const std::string elsewhere = shard_name_of(right.at("head.weight") == shard_name_of(1, 2) ? 2 : 1, 2);
  EXPECT_THAT(
      with([&](auto& map) { map["head.weight"] = elsewhere; }),
      HasSubstr("says that 'head.weight' lies in " + elsewhere + "; found it in " + right.at("head.weight")));
  EXPECT_THAT(with([](auto& map) { map.erase("head.weight"); }),
              HasSubstr("holds 'head.weight', which the index"));
  EXPECT_THAT(
      with([](auto& map) { std::erase_if(map, [](const auto& e) { return e.second[10] == '2'; }); }),
      HasSubstr("names 'model-00001-of-00002.safetensors' but not 'model-00002-of-00002.safetensors'"));
  EXPECT_THAT(with([](auto& map) { map["x"] = "../elsewhere.safetensors"; }),
              HasSubstr("the shard of 'x' is no file name"));
  folder.write("model.safetensors.index.json", "[]");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("is no index of shards"));
}

TEST(ModelFolder, ATensorInTwoShardsIsRefused) {
  const auto official = small_model();
  const TempFolder folder;
  write_repository(folder, *official, {.shards = 1, .index = false});
  std::filesystem::rename(folder.path() / "model.safetensors", folder.path() / shard_name_of(1, 2));
  std::filesystem::copy(folder.path() / shard_name_of(1, 2), folder.path() / shard_name_of(2, 2));
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("lies both in model-00001-of-00002.safetensors and in model-00002"));
}

TEST(ModelFolder, AConfigThatDisagreesIsRefused) {
  const auto official = small_model();
  const auto with = [&](const std::string& config, bool fused) {
    const TempFolder folder;
    write_repository(folder, *official, {.fused = fused, .config = config});
    return error_of(folder.path());
  };
  EXPECT_THAT(with(R"({"num_hidden_layers":3})", false),
              HasSubstr("config.num_hidden_layers is 3; the tensors make 2"));
  EXPECT_THAT(with(R"({"hidden_size":64})", false),
              HasSubstr("config.hidden_size is 64; the tensors make 32"));
  EXPECT_THAT(with(R"({"vocab_size":65536})", false),
              HasSubstr("config.vocab_size is 65536; the tensors make 40"));
  EXPECT_THAT(with(R"({"embedding_layer_norm_fused":true})", false), HasSubstr("yet there is blocks.0.ln0."));
  EXPECT_THAT(with("{}", true), HasSubstr("blocks.0.ln0.weight is missing"));
  EXPECT_THAT(with(R"({"hidden_size":"wide"})", false), HasSubstr("hidden_size is not a whole number"));
  EXPECT_THAT(with("[", false), HasSubstr("config.json is no JSON object"));
}

TEST(ModelFolder, TheChatTemplateBesideTheWeightsIsKept) {
  const TempFolder folder;
  folder.write("tokenizer_config.json", R"({"chat_template":"from the config"})");
  EXPECT_EQ(read_hub_facts(folder.path())->at(kTemplateFact), "from the config");
  folder.write("chat_template.jinja", "of its own");
  EXPECT_EQ(read_hub_facts(folder.path())->at(kTemplateFact), "of its own");
}

}  // namespace
}  // namespace fulmar
