// The order of places as a pure function, and the files around it.
#include "text/locate_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "text/sample_vocabulary.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

VocabularyFacts everything() {
  return {.told = "told.txt",
          .named = "named.txt",
          .named_file = "m/named.txt",
          .model_own = "m/model.vocab.txt",
          .world_beside = "m/world.txt",
          .world_imported = "data/world.txt",
          .model = "model.pth",
          .model_rows = kWorldRows};
}

std::string chosen(const VocabularyFacts& facts) {
  const Result<VocabularyChoice> choice = choose_vocabulary(facts);
  if (!choice.ok()) return "error";
  return choice->has_value() ? (*choice)->string() : "bytes";
}

TEST(ChooseVocabulary, TakesTheFirstOfAllPlaces) {
  VocabularyFacts facts = everything();
  EXPECT_EQ(chosen(facts), "told.txt");
  facts.told.clear();
  EXPECT_EQ(chosen(facts), "m/named.txt");
  facts.named.clear();
  facts.named_file.clear();
  EXPECT_EQ(chosen(facts), "m/model.vocab.txt");
  facts.model_own.clear();
  EXPECT_EQ(chosen(facts), "m/world.txt");
  facts.world_beside.clear();
  EXPECT_EQ(chosen(facts), "data/world.txt");
  facts.world_imported.clear();
  EXPECT_EQ(chosen(facts), "error");
}

TEST(ChooseVocabulary, BytesFor256RowsUnlessAFileBelongsToTheModel) {
  VocabularyFacts facts = everything();
  facts.told.clear();
  facts.named.clear();
  facts.named_file.clear();
  facts.model_rows = 256;
  EXPECT_EQ(chosen(facts), "m/model.vocab.txt");
  facts.model_own.clear();
  EXPECT_EQ(chosen(facts), "bytes");
}

TEST(ChooseVocabulary, TheWorldFileIsForModelsOfItsSizeOnly) {
  VocabularyFacts facts = everything();
  facts.told.clear();
  facts.named.clear();
  facts.named_file.clear();
  facts.model_own.clear();
  facts.model_rows = 320;
  const Result<VocabularyChoice> choice = choose_vocabulary(facts);
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.error().kind, ErrorKind::not_found);
  EXPECT_THAT(choice.error().text,
              AllOf(HasSubstr("320"), HasSubstr("model.vocab.txt"), HasSubstr("--vocab FILE")));
}

TEST(ChooseVocabulary, AMissingWorldVocabularySaysWhatToDo) {
  const Result<VocabularyChoice> choice = choose_vocabulary({.model = "model.pth", .model_rows = kWorldRows});
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.error().kind, ErrorKind::not_found);
  EXPECT_THAT(choice.error().text,
              AllOf(HasSubstr("fulmar tokenizer import FILE"), HasSubstr("beside the model"),
                    HasSubstr("--vocab FILE"), HasSubstr("rwkv_vocab_v20230424.txt")));
}

TEST(ChooseVocabulary, ANamedFileThatIsMissingIsNotReplacedByAnother) {
  VocabularyFacts facts = everything();
  facts.told.clear();
  facts.named_file.clear();
  EXPECT_EQ(chosen(facts), "error");
  facts.named = kWorldFileName;
  facts.model_own.clear();
  facts.world_beside.clear();
  EXPECT_EQ(chosen(facts), "data/world.txt");
}

class VocabularyFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("vocabulary_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "models");
    if (const char* old = std::getenv("XDG_DATA_HOME")) old_data_ = old;
    setenv("XDG_DATA_HOME", (folder_ / "data").c_str(), 1);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    old_data_ ? setenv("XDG_DATA_HOME", old_data_->c_str(), 1) : unsetenv("XDG_DATA_HOME");
  }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  VocabularyQuery query(int64_t rows) const {
    return {.model_path = folder_ / "models/tiny.f16.pth", .model_rows = rows};
  }

  fs::path folder_;
  std::optional<std::string> old_data_;
};

TEST_F(VocabularyFiles, AModelOf256RowsGetsBytes) {
  const auto tokenizer = choose_tokenizer(query(256));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->name(), "bytes");
}

TEST_F(VocabularyFiles, TheModelsOwnFileIsFoundByItsName) {
  write("models/tiny.f16.vocab.txt", vocabulary_file({"own"}));
  const auto tokenizer = choose_tokenizer(query(300));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->token_of("own"), 257);
  EXPECT_EQ((*tokenizer)->name(), "file");
}

TEST_F(VocabularyFiles, TheNameInTheModelIsANeighbour) {
  write("models/other.txt", vocabulary_file({"named"}));
  write("secret.txt", vocabulary_file({"secret"}));
  VocabularyQuery named = query(300);
  named.named_in_model = "other.txt";
  const auto tokenizer = choose_tokenizer(named);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->token_of("named"), 257);
  for (const std::string& elsewhere : {std::string("../secret.txt"), (folder_ / "secret.txt").string()}) {
    named.named_in_model = elsewhere;
    EXPECT_FALSE(choose_tokenizer(named).ok()) << elsewhere;
  }
}

TEST_F(VocabularyFiles, AFolderMayHoldItsVocabularyInAnyForm) {
  const Vocabulary own = *parse_vocabulary(vocabulary_file({"own"}), "own");
  const VocabularyQuery folder{.model_path = folder_ / "models", .model_rows = 300};
  EXPECT_FALSE(choose_tokenizer(folder).ok());
  for (const std::string name : {"vocab.txt", "tokenizer.json", "rwkv_vocab.json"}) {
    write("models/" + name, name == "vocab.txt" ? vocabulary_file({"own"}) : tokenizer_json(own));
    const auto tokenizer = choose_tokenizer(folder);
    ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.error().text;
    EXPECT_EQ((*tokenizer)->token_of("own"), 257);
    fs::remove(folder_ / "models" / name);
  }
}

TEST_F(VocabularyFiles, TwoVocabulariesInAFolderAreOneError) {
  const VocabularyQuery folder{.model_path = folder_ / "models", .model_rows = 300};
  write("models/vocab.txt", vocabulary_file({"own"}));
  write("models/tokenizer.json", tokenizer_json(*parse_vocabulary(vocabulary_file({"own"}), "same")));
  EXPECT_TRUE(choose_tokenizer(folder).ok());
  write("models/tokenizer.json", tokenizer_json(*parse_vocabulary(vocabulary_file({"other"}), "other")));
  const auto refused = choose_tokenizer(folder);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, AllOf(HasSubstr("tokenizer.json"), HasSubstr("vocab.txt"),
                                          HasSubstr("two different vocabularies"), HasSubstr("--vocab")));
  VocabularyQuery told = folder;
  told.explicit_vocabulary = folder_ / "models/vocab.txt";
  EXPECT_TRUE(choose_tokenizer(told).ok());
}

TEST_F(VocabularyFiles, AFolderOfWorldRowsTakesTheWorldVocabularyOnly) {
  const VocabularyQuery folder{.model_path = folder_ / "models", .model_rows = kWorldRows};
  write("models/tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"merges\":[]}}");
  write("models/vocab.txt", vocabulary_file({"own"}));
  const auto refused = choose_tokenizer(folder);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text,
              AllOf(HasSubstr("vocab.txt"), HasSubstr("257 tokens"), HasSubstr("65536")));
  fs::remove(folder_ / "models/vocab.txt");
  const auto world = read_whole_file(shared_world_file());
  if (!world) GTEST_SKIP() << "the World vocabulary is not at hand: " << shared_world_file();
  write("models/rwkv_vocab.json", token_map_json(*parse_vocabulary(*world, "world")));
  const auto tokenizer = choose_tokenizer(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text;
  EXPECT_EQ((*tokenizer)->name(), "world");
}

TEST_F(VocabularyFiles, IdsBeyondTheModelAreRefused) {
  write("v.txt", vocabulary_file({"own"}));
  VocabularyQuery told = query(257);
  told.explicit_vocabulary = folder_ / "v.txt";
  const auto refused = choose_tokenizer(told);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().text, AllOf(HasSubstr("257"), HasSubstr("ids up to 257")));
  told.model_rows = 258;
  EXPECT_TRUE(choose_tokenizer(told).ok());
}

TEST_F(VocabularyFiles, AVocabularyAloneNeedsNoModel) {
  write("v.txt", vocabulary_file({"own"}));
  EXPECT_TRUE(choose_tokenizer({.explicit_vocabulary = folder_ / "v.txt"}).ok());
}

TEST_F(VocabularyFiles, WhatCannotBeReadIsNamed) {
  for (const char* name : {"absent.txt", "models"}) {
    const auto tokenizer = open_vocabulary_file(folder_ / name);
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::not_found);
    EXPECT_THAT(tokenizer.error().text, HasSubstr(name));
  }
  write("broken.txt", "1 'a' 1\nnonsense\n");
  const auto broken = open_vocabulary_file(folder_ / "broken.txt");
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.error().text, AllOf(HasSubstr("broken.txt"), HasSubstr("line 2")));
}

TEST_F(VocabularyFiles, OnlyTheWorldVocabularyIsImported) {
  write("v.txt", vocabulary_file({"own"}));
  const auto refused = import_vocabulary(folder_ / "v.txt");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(refused.error().text, AllOf(HasSubstr("v.txt"), HasSubstr("257 tokens are not those of")));
  EXPECT_FALSE(fs::exists(folder_ / "data"));
  EXPECT_FALSE(import_vocabulary(folder_ / "absent.txt").ok());
}

TEST_F(VocabularyFiles, AnImportedWorldVocabularyIsFoundAgain) {
  if (!fs::exists(shared_world_file()))
    GTEST_SKIP() << "the World vocabulary is not at hand: " << shared_world_file();
  EXPECT_FALSE(choose_tokenizer(query(kWorldRows)).ok());
  const auto installed = import_vocabulary(shared_world_file());
  ASSERT_TRUE(installed.ok()) << installed.error().text;
  EXPECT_EQ(*installed, folder_ / "data/fulmar" / kWorldFileName);
  EXPECT_TRUE(import_vocabulary(shared_world_file()).ok());
  const auto entries = fs::directory_iterator(folder_ / "data/fulmar");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
  const auto tokenizer = choose_tokenizer(query(kWorldRows));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->name(), "world");
}

TEST_F(VocabularyFiles, AFailedImportLeavesNothingBehind) {
  if (!fs::exists(shared_world_file()))
    GTEST_SKIP() << "the World vocabulary is not at hand: " << shared_world_file();
  write("data", "a file where the folder should be");
  const auto installed = import_vocabulary(shared_world_file());
  ASSERT_FALSE(installed.ok());
  EXPECT_EQ(installed.error().kind, ErrorKind::io);
  EXPECT_TRUE(fs::is_regular_file(folder_ / "data"));
}

TEST_F(VocabularyFiles, TheFolderFollowsTheEnvironment) {
  EXPECT_EQ(vocabulary_folder(), folder_ / "data/fulmar");
  setenv("XDG_DATA_HOME", "relative", 1);
  const char* home = std::getenv("HOME");
  EXPECT_EQ(vocabulary_folder(), fs::path(home != nullptr ? home : "/") / ".local/share/fulmar");
}

}  // namespace
}  // namespace fulmar
