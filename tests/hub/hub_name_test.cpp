#include "hub/hub_name.h"

#include <gmock/gmock.h>

#include "hub/pull.h"

namespace fulmar {
namespace {

using testing::HasSubstr;

TEST(HubName, HasOwnerNameAndPerhapsAFile) {
  const auto plain = parse_hub_name("BlinkDL/rwkv7-g1");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->owner, "BlinkDL");
  EXPECT_EQ(plain->name, "rwkv7-g1");
  EXPECT_EQ(plain->file, "");
  EXPECT_EQ(parse_hub_name("a/b:sub/c.pth")->file, "sub/c.pth");
  EXPECT_EQ(parse_hub_name("hf.co/a/b")->owner, "a");
}

TEST(HubName, NothingElsePasses) {
  for (const char* text :
       {"", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/.b", "a b/c", "a/b?x", "a/b#c", "a/b%2e"}) {
    EXPECT_FALSE(parse_hub_name(text).ok()) << text;
  }
  for (const char* file :
       {"", "/etc/passwd", "../x.pth", "a/../x.pth", "a//b", "a/", ".x", "a/.x", "a\\b", "a\nb"}) {
    EXPECT_FALSE(parse_hub_name("a/b:" + std::string(file)).ok()) << file;
  }
  EXPECT_THAT(parse_hub_name("nonsense").error().text, HasSubstr("OWNER/NAME"));
}

TEST(HubName, LocalNamesAreTheFilesOwn) {
  const HubName hub{"own", "tiny-chat", ""};
  EXPECT_EQ(*local_model_name(hub, "sub/x-1.5b.pth", ""), "x-1.5b.pth");
  EXPECT_EQ(*local_model_name(hub, "model.safetensors", ""), "tiny-chat.safetensors");
  EXPECT_EQ(*local_model_name(hub, "x.pth", "mine"), "mine.pth");
  EXPECT_FALSE(local_model_name(hub, "x.pth", "../mine").ok());
  EXPECT_FALSE(local_model_name(hub, "x.pth", ".mine").ok());
}

TEST(HubName, AVocabularyBelongsToItsModel) {
  EXPECT_EQ(local_vocabulary_name("a/vocab.txt", "x.1.pth"), "x.1.vocab.txt");
  EXPECT_EQ(local_vocabulary_name("rwkv_vocab_v20230424.txt", "x.pth"), "rwkv_vocab_v20230424.txt");
}

TEST(HubEndpoint, ComesFromTheFlagOrTheEnvironment) {
  EXPECT_EQ(*hub_endpoint("https://a/", "https://b"), "https://a");
  EXPECT_EQ(*hub_endpoint("", "http://b:1"), "http://b:1");
  EXPECT_THAT(hub_endpoint("", nullptr).error().text, HasSubstr("--endpoint"));
  EXPECT_FALSE(hub_endpoint("ftp://a", nullptr).ok());
}

}  // namespace
}  // namespace fulmar
