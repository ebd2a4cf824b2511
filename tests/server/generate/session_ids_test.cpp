// Which ids clients may name a session by, at every door, and on which routes.
#include "server/generate/session_ids.h"

#include <gmock/gmock.h>

#include "server/generating_routes.h"
#include "server/responses/response_store.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Generating routes that continue a session.
const std::set<std::string_view> kContinuing = {"/v1/chat/completions",          "/chat/completions",
                                                "/openai/v1/chat/completions",   "/state/chat/completions",
                                                "/multi_state/chat/completions", "/v1/advanced/multi_state"};

std::string without_id(std::string body) {
  const std::string usual = R"("session_id":"s",)";
  if (const size_t at = body.find(usual); at != std::string::npos) body.erase(at, usual.size());
  return body;
}

// Each place of a JSON body in which an id is sent, "@" in its place.
std::vector<std::pair<std::string, std::string>> body_doors() {
  std::vector<std::pair<std::string, std::string>> doors = {
      {"/state/delete", R"({"session_id":"@"})"},
      {"/state/delete", R"({"session_id":"@","delete_prefix":true})"},
      {"/v1/admin/state/delete", R"({"session_id":"@"})"},
      {"/v1/sessions/s/fork", R"({"session_id":"@"})"},
      {"/v1/server/resume", R"({"session_id":"@"})"},
  };
  for (const auto& [path, body] : kBodies) {
    if (kContinuing.contains(path)) doors.emplace_back(path, without_id(body) + R"(,"session_id":"@"})");
  }
  return doors;
}

std::vector<std::string> listed(const ServerRig& rig, const std::string& query) {
  const auto page = parse_json(rig.get("/v1/sessions" + query).body);
  std::vector<std::string> ids;
  for (const JsonValue& one : page->find("data")->as_array()) ids.push_back(one.find("id")->as_string());
  return ids;
}

TEST(SessionIds, WhatIsWrongWithOneIsSaid) {
  const auto text = [](std::string_view id) {
    const auto fault = session_id_fault(id);
    return fault ? fault->text : std::string();
  };
  for (const std::string id : {"s", "t:1", "response", "resp_1", "a b", "\xC3\xA9", "x:resp:1"})
    EXPECT_EQ(text(id), "") << id;
  EXPECT_EQ(text(std::string(512, 's')), "");
  EXPECT_EQ(text(std::string(513, 's')), "'session_id' holds 513 bytes; 1 to 512 are allowed");
  EXPECT_EQ(text(""), "'session_id' holds 0 bytes; 1 to 512 are allowed");
  for (int byte = 0; byte < 0x80; ++byte) {
    const bool control = byte < 0x20 || byte == 0x7F;
    EXPECT_EQ(session_id_fault("a" + std::string(1, static_cast<char>(byte))).has_value(), control) << byte;
  }
  EXPECT_THAT(text(std::string_view("a\0", 2)), HasSubstr("U+0000"));
  for (const std::string& id : {std::string("resp"), std::string("resp:"), response_session("resp_1")}) {
    EXPECT_TRUE(is_servers_session(id)) << id;
    EXPECT_THAT(text(id), HasSubstr("'" + id + "'"));
  }
}

TEST(SessionIds, OfTheServersOwnOrWithControlCharactersAreRefusedAtEveryDoor) {
  ServerRig rig;
  const auto made = parse_json(rig.post("/v1/responses", R"({"input":"hi"})").body);
  const std::string own = response_session(made->find("id")->as_string());
  rig.post("/state/chat/completions", R"({"session_id":"s","contents":["x"]})");
  const size_t asked = rig.engine.asks().size();
  for (const auto& [path, body] : body_doors()) {
    for (const std::string& id :
         {own, std::string("resp"), std::string("a\\u0000"), std::string("\\u007f")}) {
      std::string sent = body;
      sent.replace(sent.find('@'), 1, id);
      const Reply reply = rig.post(path, sent);
      EXPECT_EQ(reply.status, 400) << path << sent << reply.body;
      EXPECT_THAT(reply.body, HasSubstr("'session_id'")) << path << sent;
    }
  }
  EXPECT_EQ(rig.get("/v1/sessions/" + own + "/state").status, 404);
  EXPECT_EQ(rig.post("/v1/sessions/" + own + "/fork", R"({"session_id":"copy"})").status, 404);
  EXPECT_EQ(rig.send("DELETE", "/v1/sessions/" + own).status, 404);
  EXPECT_EQ(rig.send("PUT", "/v1/sessions/" + own + "/state", "x").status, 400);
  for (const std::string id : {"%01", "a%7F"}) {
    EXPECT_EQ(rig.get("/v1/sessions/" + id + "/state").status, 400) << id;
    EXPECT_EQ(rig.post("/v1/sessions/" + id + "/fork", R"({"session_id":"copy"})").status, 400) << id;
    EXPECT_EQ(rig.send("DELETE", "/v1/sessions/" + id).status, 400) << id;
    EXPECT_EQ(rig.send("PUT", "/v1/sessions/" + id + "/state", "x").status, 400) << id;
  }
  EXPECT_EQ(rig.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})",
                     header("X-RWKV-Session-Id", own))
                .status,
            400);
  EXPECT_EQ(rig.engine.asks().size(), asked);
  EXPECT_TRUE(*rig.engine.has_session({}, own));
}

TEST(SessionIds, TheServersOwnSessionsAreNotListed) {
  ServerRig rig;
  rig.post("/v1/responses", R"({"input":"hi"})");
  rig.post("/state/chat/completions", R"({"session_id":"s","contents":["x"]})");
  EXPECT_THAT(listed(rig, ""), ElementsAre("s"));
  const std::string status = rig.post("/state/status", "{}").body;
  EXPECT_THAT(status, HasSubstr(R"("total_sessions":1)"));
  EXPECT_THAT(status, Not(HasSubstr("resp:")));
}

// Databases of older versions hold ids that no URL can.
TEST(SessionIds, PagesGoOnBehindOldOnesThatNoUrlHolds) {
  const std::string nul("b\0", 2);
  for (const auto& [old, told] : {std::pair(nul, nul), {"b\xf8", "b\uFFFD"}}) {
    ServerRig rig;
    for (const std::string& id : {std::string("a"), old, std::string("c")})
      ASSERT_TRUE(rig.engine.import_session({}, id, {}).ok());
    EXPECT_THAT(listed(rig, "?limit=1"), ElementsAre("a"));
    EXPECT_THAT(listed(rig, "?limit=1&after=a"), ElementsAre(told, "c"));
  }
}

// Every generating route continues the session that is sent, in the body or as a header, or refuses it by
// name.
TEST(SessionIds, AreNowhereIgnored) {
  ServerRig rig;
  for (const auto& [path, body] : kBodies) {
    const bool continues = kContinuing.contains(path);
    const Reply reply = rig.post(std::string(path), without_id(body) + R"(,"session_id":"h"})");
    EXPECT_EQ(reply.status, continues ? 200 : 400) << path << reply.body;
    if (continues) {
      EXPECT_THAT(rig.last_ask().state.read_session, AnyOf("h", "h:0")) << path;
    } else {
      EXPECT_THAT(reply.body, HasSubstr("'session_id' is not kept on this route")) << path;
    }
    const Reply by_header =
        rig.post(std::string(path), without_id(body) + "}", header("X-RWKV-Session-Id", "g"));
    EXPECT_EQ(by_header.status, continues ? 200 : 400) << path << by_header.body;
    if (continues) {
      EXPECT_THAT(rig.last_ask().state.read_session, AnyOf("g", "g:0")) << path;
    } else {
      EXPECT_THAT(by_header.body, HasSubstr("'X-RWKV-Session-Id' is not kept on this route")) << path;
    }
  }
  EXPECT_EQ(rig.post("/v1/responses", R"({"input":"hi","background":true,"session_id":"h"})").status, 400);
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","session_id":null})").status, 200);
}

}  // namespace
}  // namespace fulmar::testing
