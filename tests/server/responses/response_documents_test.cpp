// Stored responses as texts.
#include "server/responses/response_documents.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

TEST(ResponseDocuments, ComeBackAsTheyWereStored) {
  const StoredResponse stored{.id = "resp_1",
                              .model = "m",
                              .json = R"({"a":"\u0000"})",
                              .created = 7,
                              .tools = "t",
                              .input = "[1]",
                              .calls = {"c1", "c2"},
                              .owner = "alice"};
  const auto read = response_of(document_of(stored));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->id, "resp_1");
  EXPECT_EQ(read->model, "m");
  EXPECT_EQ(read->json, stored.json);
  EXPECT_EQ(read->created, 7);
  EXPECT_EQ(read->tools, "t");
  EXPECT_EQ(read->input, "[1]");
  EXPECT_EQ(read->calls, stored.calls);
  EXPECT_EQ(read->owner, "alice");
}

// It is there: 404 would be wrong.
TEST(ResponseDocuments, ThatCannotBeReadAreAnError) {
  for (const char* text :
       {"", "{", "[]", "7", R"({"json":7,"calls":[]})", R"({"json":"x"})", "{\"json\":\"x"}) {
    const auto read = response_of({.id = "resp_1", .owner = {}, .text = text});
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.error().text.find("'resp_1'"), std::string::npos);
  }
}

}  // namespace
}  // namespace fulmar
