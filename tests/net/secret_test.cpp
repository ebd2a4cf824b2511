// Comparing keys, and base64 as clients send and read it.
#include "net/secret.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

TEST(Secret, OnlyTheWholeSecretIsTheSame) {
  EXPECT_TRUE(same_secret("key", "key"));
  for (const char* offered : {"", "k", "ke", "kez", "keyy", "keykey", "KEY"}) {
    EXPECT_FALSE(same_secret("key", offered)) << offered;
  }
  EXPECT_FALSE(same_secret("", "")) << "no key opens nothing";
  EXPECT_FALSE(same_secret("key", std::string_view("key\0", 4)));
}

TEST(Secret, Base64GoesBothWays) {
  std::string bytes;
  for (int i = 0; i < 257; i++) {
    EXPECT_EQ(from_base64(base64_of(bytes)), bytes) << i;
    bytes += static_cast<char>(i * 7);
  }
  EXPECT_EQ(base64_of("user:pass"), "dXNlcjpwYXNz");
  EXPECT_EQ(base64_of("a"), "YQ==");
  EXPECT_EQ(base64_of(""), "");
}

TEST(Secret, PaddingMayBeMissingAndOtherTextIsNothing) {
  EXPECT_EQ(from_base64("YQ"), "a");
  EXPECT_EQ(from_base64("YWI"), "ab");
  for (const char* broken : {"Y", "YQ?=", "YQ=Q", "\xff\xff\xff\xff", "====="}) {
    EXPECT_EQ(from_base64(broken), "") << broken;
  }
}

}  // namespace
}  // namespace fulmar
