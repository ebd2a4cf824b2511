// Sessions at the HTTP boundary: what is fed, what is listed, what goes.
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

TEST(Sessions, ATurnReadsAndWritesItsSession) {
  ServerRig rig;
  const Reply reply = rig.post("/state/chat/completions", R"({"session_id":"s","contents":["User: a"]})");
  EXPECT_TRUE(reply.body.starts_with(R"({"id":"rwkv7-batch","object":"chat.completion",)")) << reply.body;
  const StateLink link = rig.last_ask().state;
  EXPECT_EQ(link.read_session, "s");
  EXPECT_EQ(link.write_session, "s");
  EXPECT_FALSE(link.must_exist);
  EXPECT_FALSE(link.keep_on_cancel);
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: a");
  EXPECT_EQ(rig.tokenizer.decode(link.continuing), "\n\nUser: a");
}

TEST(Sessions, SeparatorUnlessPresentOrRefused) {
  ServerRig rig;
  rig.post("/state/chat/completions", R"({"session_id":"s","contents":["\n\nUser: a"]})");
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().state.continuing), "\n\nUser: a");
  rig.post("/state/chat/completions",
           R"({"session_id":"s","contents":["a"],"raw_append":true,"on_disconnect":"keep"})");
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().state.continuing), "a");
  EXPECT_TRUE(rig.last_ask().state.keep_on_cancel);
}

TEST(Sessions, OnOpenaiRoutesOnlyTheNewTurnIsRendered) {
  ServerRig rig;
  for (const std::string path : {"/v1/chat/completions", "/openai/v1/chat/completions"}) {
    const std::string body = R"({"session_id":"s","messages":[{"role":"user","content":"hi"}])";
    EXPECT_EQ(rig.post(path, body + "}").status, 200);
    EXPECT_EQ(rig.last_ask().state.write_session, "s");
    EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().state.continuing), "\n\nUser: hi\n\nAssistant:");
    EXPECT_EQ(rig.post(path, body + R"(,"n":2})").status, 400);
  }
  EXPECT_EQ(rig.post("/v1/chat/completions", R"({"session_id":"s","contents":["a"]})").status, 200);
  EXPECT_EQ(rig.last_ask().state.write_session, "s");
  EXPECT_EQ(rig.post("/v1/chat/completions", R"({"contents":["a"]})").status, 200);
  EXPECT_EQ(rig.last_ask().state.write_session, "");
}

TEST(Sessions, ListAndDelete) {
  ServerRig rig;
  EXPECT_EQ(
      rig.post("/state/status", "").body,
      R"({"status":"success","total_sessions":0,"l1_cache_count":0,"l2_cache_count":0,"database_count":0,"sessions":[]})");
  for (const std::string id : {"s", "s:1", "t"}) {
    rig.post("/state/chat/completions", R"({"session_id":")" + id + R"(","contents":["a"]})");
  }
  EXPECT_TRUE(
      rig.post("/state/status", "{}")
          .body.starts_with(
              R"json({"status":"success","total_sessions":3,"l1_cache_count":3,"l2_cache_count":0,"database_count":0,"sessions":[{"session_id":"s","cache_level":"L1 (VRAM)","last_updated":"In Memory","timestamp":)json"));
  EXPECT_EQ(rig.post("/state/delete", R"({"session_id":"t"})").body,
            R"({"status":"success","message":"Session t deleted successfully"})");
  const Reply again = rig.post("/state/delete", R"({"session_id":"t"})");
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(again.body, R"({"status":"not_found","message":"Session t not found in database"})");
  EXPECT_EQ(rig.post("/state/delete", R"({"session_id":"s","delete_prefix":true})").status, 200);
  EXPECT_NE(rig.post("/state/status", "{}").body.find(R"("total_sessions":0)"), std::string::npos);
}

TEST(Sessions, Errors) {
  const ServerRig rig;
  const std::array<std::string, 3> cases[] = {
      {"/state/chat/completions", R"({"contents":["a"]})", R"({"error":"Missing session_id parameter"})"},
      {"/state/chat/completions", R"({"session_id":"s"})",
       R"({"error":"Request must contain exactly one prompt"})"},
      {"/state/chat/completions", R"({"session_id":"s","contents":["a","b"]})",
       R"({"error":"Request must contain exactly one prompt"})"},
      {"/v1/chat/completions", R"({"session_id":"s","contents":["a","b"]})",
       R"({"error":"Request must contain exactly one prompt"})"},
      {"/state/delete", "{}", R"({"error":"Missing session_id parameter"})"},
      {"/openai/v1/chat/completions", R"({"session_id":"s","contents":["a","b"]})",
       R"({"error":{"message":"State mode only supports a single contents item","type":"invalid_request_error","param":"contents","code":"invalid_value"}})"},
      {"/openai/v1/chat/completions", R"({"session_id":"s"})",
       R"({"error":{"message":"State mode requires incremental contents or messages","type":"invalid_request_error","param":"messages","code":"missing_input"}})"},
  };
  for (const auto& [path, body, wanted] : cases) {
    const Reply reply = rig.post(path, body);
    EXPECT_EQ(reply.status, 400) << path << body;
    EXPECT_EQ(reply.body, wanted) << path << body;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

}  // namespace
}  // namespace fulmar::testing
