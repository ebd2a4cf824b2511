#include "hub/hub_listing.h"

#include <gmock/gmock.h>

#include <fstream>

#include "hub/file_digest.h"

namespace fulmar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kSha256(64, 'a'), kSha1(40, 'b');

HubFile file(std::string path) { return {std::move(path), 1, {}}; }

TEST(HubListing, ReadsSizesAndChecksums) {
  const auto files = parse_listing(R"([{"type":"directory","path":"d"},)"
                                   R"({"type":"file","path":"v.txt","size":5,"oid":")" +
                                   kSha1 + R"("},{"type":"file","path":"m.pth","size":130,"oid":")" + kSha1 +
                                   R"(","lfs":{"oid":")" + kSha256 + R"(","size":1000,"pointerSize":130}}])");
  ASSERT_TRUE(files.ok()) << files.error().text;
  ASSERT_THAT(*files, SizeIs(2));
  EXPECT_EQ((*files)[0].checksum.kind, Checksum::Kind::git_blob);
  EXPECT_EQ((*files)[1].checksum.kind, Checksum::Kind::sha256);
  EXPECT_EQ((*files)[1].checksum.hex, kSha256);
  EXPECT_EQ((*files)[1].size, 1000);
}

TEST(HubListing, LeavesOutWhatItCannotTrust) {
  const auto files = parse_listing(R"([{"path":"../m.pth"},{"path":"/m.pth"},{"path":"a/../../m.pth"},{},)"
                                   R"({"path":"m.pth","oid":"short","lfs":{"oid":"XYZ"}}])");
  ASSERT_TRUE(files.ok());
  ASSERT_THAT(*files, SizeIs(1));
  EXPECT_EQ((*files)[0].checksum.kind, Checksum::Kind::none);
  EXPECT_EQ((*files)[0].size, -1);
}

TEST(HubListing, RefusesWhatIsNoListing) {
  for (const char* text : {"", "{}", "[", R"([{"path":5}])", R"([{"path":"a","size":-1}])"}) {
    EXPECT_FALSE(parse_listing(text).ok()) << text;
  }
}

TEST(HubListing, FindsTheNextPage) {
  EXPECT_EQ(next_page(R"( <https://hub/a?cursor=2>; rel="next")"), "https://hub/a?cursor=2");
  EXPECT_EQ(next_page(R"(<https://hub/a>; rel="prev", <https://hub/c,d>; rel="next")"), "https://hub/c,d");
  EXPECT_EQ(next_page("<https://hub/b>; rel=next"), "https://hub/b");
  for (const char* last : {"", "<", "<https://hub/a", R"(<https://hub/a>; rel="prev")", "rel=\"next\""}) {
    EXPECT_EQ(next_page(last), "") << last;
  }
}

TEST(ChooseFiles, TakesTheOnlyModelAndItsVocabulary) {
  const HubName hub{"o", "n", ""};
  const auto plan =
      choose_files(hub, {file("README.md"), file("a.state.pth"), file("a.pth"), file("x_vocab.txt")});
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->model.path, "a.pth");
  ASSERT_THAT(plan->vocabularies, SizeIs(1));
  EXPECT_EQ(plan->vocabularies[0].path, "x_vocab.txt");
}

TEST(ChooseFiles, AsksWhereThereAreSeveral) {
  const HubName hub{"o", "n", ""};
  const std::vector<HubFile> files = {file("a.pth"), file("b.safetensors")};
  const auto unclear = choose_files(hub, files);
  EXPECT_THAT(unclear.error().text,
              AllOf(HasSubstr("a.pth"), HasSubstr("b.safetensors"), HasSubstr("o/n:FILE")));
  EXPECT_EQ(choose_files({"o", "n", "b.safetensors"}, files)->model.path, "b.safetensors");
  EXPECT_EQ(choose_files({"o", "n", "c.pth"}, files).error().kind, ErrorKind::not_found);
  EXPECT_EQ(choose_files(hub, {file("README.md")}).error().kind, ErrorKind::not_found);
}

TEST(ChooseFiles, PrefersTheModelsOwnVocabularyAndGuessesNone) {
  const HubName hub{"o", "n", "a.pth"};
  const std::vector<HubFile> both = {file("a.pth"), file("z_vocab.txt"), file("a.vocab.txt")};
  EXPECT_EQ(choose_files(hub, both)->vocabularies[0].path, "a.vocab.txt");
  EXPECT_THAT(choose_files(hub, {file("a.pth"), file("x_vocab.txt"), file("y_vocab.txt")})->vocabularies,
              IsEmpty());
}

std::vector<std::string> paths_of(const std::vector<HubFile>& files) {
  std::vector<std::string> paths;
  for (const HubFile& one : files) paths.push_back(one.path);
  return paths;
}

TEST(ChooseFiles, TakesARepositoryWhole) {
  const std::vector<HubFile> files = {file("README.md"),
                                      file("chat_template.jinja"),
                                      file("config.json"),
                                      file("model-00001-of-00002.safetensors"),
                                      file("model-00002-of-00002.safetensors"),
                                      file("model.safetensors.index.json"),
                                      file("modeling_rwkv7.py"),
                                      file("original/config.json"),
                                      file("rwkv_vocab_v20230424.txt"),
                                      file("tokenizer.json")};
  for (const char* asked : {"", "model.safetensors.index.json", "model-00002-of-00002.safetensors"}) {
    const auto plan = choose_files({"o", "n", asked}, files);
    ASSERT_TRUE(plan.ok()) << plan.error().text;
    EXPECT_THAT(paths_of(plan->repository),
                ElementsAre("chat_template.jinja", "config.json", "model.safetensors.index.json",
                            "rwkv_vocab_v20230424.txt", "tokenizer.json", "model-00001-of-00002.safetensors",
                            "model-00002-of-00002.safetensors"));
  }
  const auto single = choose_files({"o", "n", ""}, {file("model.safetensors"), file("config.json")});
  EXPECT_THAT(paths_of(single->repository), ElementsAre("config.json", "model.safetensors"));
  const auto bare = choose_files({"o", "n", ""}, {file("model.safetensors"), file("x_vocab.txt")});
  EXPECT_EQ(bare->model.path, "model.safetensors");
  EXPECT_THAT(bare->repository, IsEmpty());
}

TEST(ChooseFiles, ShardsBesideAnotherModelAreOneOfTwo) {
  const std::vector<HubFile> files = {file("config.json"), file("m-00001-of-00002.safetensors"),
                                      file("m-00002-of-00002.safetensors"), file("other.pth")};
  const auto unclear = choose_files({"o", "n", ""}, files);
  ASSERT_FALSE(unclear.ok());
  EXPECT_THAT(unclear.error().text, HasSubstr("several models"));
  EXPECT_EQ(choose_files({"o", "n", "other.pth"}, files)->model.path, "other.pth");
  EXPECT_THAT(choose_files({"o", "n", "m-00001-of-00002.safetensors"}, files)->repository, SizeIs(3));
}

TEST(FileDigest, IsThatOfTheFile) {
  const auto path = std::filesystem::path(testing::TempDir()) / "fulmar_file_digest";
  std::ofstream(path) << "hello\n";
  // As sha256sum and git hash-object print them.
  EXPECT_EQ(*file_digest(path, Checksum::Kind::sha256),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_EQ(*file_digest(path, Checksum::Kind::git_blob), "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_TRUE(check_file(path, {}).ok());
  EXPECT_THAT(check_file(path, {Checksum::Kind::sha256, kSha256}).error().text, HasSubstr(kSha256));
  std::filesystem::remove(path);
  EXPECT_EQ(file_digest(path, Checksum::Kind::sha256).error().kind, ErrorKind::io);
}

}  // namespace
}  // namespace fulmar
