// Sessions as objects and embeddings at the HTTP boundary.
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

TEST(SessionObjects, ListedAndDropped) {
  ServerRig rig;
  EXPECT_EQ(rig.get("/v1/sessions").body, R"({"object":"list","data":[],"has_more":false})");
  rig.post("/state/chat/completions", R"({"session_id":"a/b","contents":["x"]})");
  EXPECT_TRUE(rig.get("/v1/sessions")
                  .body.starts_with(
                      R"({"object":"list","data":[{"id":"a/b","object":"session","model":"tiny-rwkv7",)"));
  EXPECT_EQ(rig.send("DELETE", "/v1/sessions/a%2Fb").body,
            R"({"id":"a/b","object":"session","deleted":true})");
  EXPECT_EQ(rig.send("DELETE", "/v1/sessions/a%2Fb").status, 404);
}

// However large the pages: together they are all sessions, each once, in the order of their ids.
TEST(SessionObjects, AreListedByPages) {
  ServerRig rig;
  std::vector<std::string> all;
  for (int i = 10; i < 17; ++i) {
    all.push_back("s" + std::to_string(i));
    rig.post("/state/chat/completions", R"({"session_id":")" + all.back() + R"(","contents":["x"]})");
  }
  for (size_t limit = 1; limit <= 8; ++limit) {
    std::vector<std::string> seen;
    std::string after;
    for (bool more = true; more;) {
      const auto page =
          parse_json(rig.get("/v1/sessions?limit=" + std::to_string(limit) + "&after=" + after).body);
      ASSERT_TRUE(page.ok());
      const auto& data = page->find("data")->as_array();
      ASSERT_FALSE(data.empty());
      EXPECT_LE(data.size(), limit);
      for (const JsonValue& one : data) seen.push_back(one.find("id")->as_string());
      after = seen.back();
      more = page->find("has_more")->as_bool();
    }
    EXPECT_EQ(seen, all) << limit;
  }
  for (const char* limit : {"0", "-1", "1001", "x", "1x", "99999999999999999999"}) {
    const Reply reply = rig.get(std::string("/v1/sessions?limit=") + limit);
    EXPECT_EQ(reply.status, 400) << limit;
    EXPECT_NE(reply.body.find("1 to 1000"), std::string::npos) << reply.body;
  }
}

TEST(SessionObjects, Errors) {
  ServerRig rig;
  rig.post("/state/chat/completions", R"({"session_id":"s","contents":["x"]})");
  rig.post("/state/chat/completions", R"({"session_id":"t","contents":["x"]})");
  const Reply none = rig.get("/v1/sessions/no%2Fne/state");
  EXPECT_EQ(none.status, 404);
  EXPECT_NE(none.body.find("'no/ne'"), std::string::npos) << none.body;
  EXPECT_EQ(rig.get("/v1/sessions/s").status, 405);
  EXPECT_EQ(rig.send("PUT", "/v1/sessions/s/state", "FULMARST and nothing else").status, 400);
  EXPECT_EQ(rig.send("PUT", "/v1/sessions/s/state", "").status, 400);
  EXPECT_EQ(rig.post("/v1/sessions/s/fork", "{}").status, 400);
  EXPECT_EQ(rig.post("/v1/sessions/none/fork", R"({"session_id":"u"})").status, 404);
  EXPECT_EQ(rig.post("/v1/sessions/s/fork", R"({"session_id":"t"})").status, 409);
}

TEST(Embeddings, Errors) {
  ServerRig rig;
  for (const char* body :
       {"{}", R"({"input":""})", R"({"input":[]})", R"({"input":["a",""]})", R"({"input":7})",
        R"({"input":[1.5]})", R"({"input":[65536]})", R"({"input":[-1]})", R"({"input":[["a"]]})",
        R"({"input":"a","encoding_format":"hex"})", R"({"input":"a","dimensions":0})"}) {
    const Reply reply = rig.post("/v1/embeddings", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_TRUE(reply.body.starts_with(R"({"error":{"message":)")) << reply.body;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(Embeddings, OneRowPerInput) {
  ServerRig rig;
  EXPECT_EQ(rig.post("/v1/embeddings", R"({"input":["ab","c"],"encoding_format":"base64"})").status, 200);
  const std::vector<Ask> asks = rig.engine.asks();
  ASSERT_EQ(asks.size(), 2u);
  EXPECT_TRUE(asks[0].embed);
  EXPECT_EQ(asks[0].max_tokens, 0);
  EXPECT_EQ(rig.tokenizer.decode(asks[0].prompt), "ab");
  EXPECT_EQ(asks[1].index, 1);
}

}  // namespace
}  // namespace fulmar::testing
