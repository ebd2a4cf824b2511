// The description of all routes.
#include "server/status/openapi.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "server/admin_rig.h"
#include "server/core/route_notes.h"
#include "server/routes.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

TEST(Openapi, ListsTheTableOfRoutes) {
  const auto document = parse_json(ServerRig().get("/openapi.json").body);
  ASSERT_TRUE(document.ok());
  std::set<std::string> listed, wanted;
  for (const auto& [path, operations] : document->find("paths")->as_object().members()) {
    for (const auto& [method, operation] : operations.as_object().members()) {
      EXPECT_FALSE(operation.find("summary")->as_string().empty()) << method << " " << path;
      listed.insert(method + " " + path);
    }
  }
  for (const Route& route : routes()) {
    std::string path = path_with(route.path, "{id}"), method(route.method);
    std::transform(method.begin(), method.end(), method.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    wanted.insert(method + " " + path);
    EXPECT_NE(find_route_note(route.path), nullptr) << route.path;
    const JsonValue* security = document->find("paths")->find(path)->find(method)->find("security");
    const bool asks = needs_key({.password = "p"}, route.access);
    EXPECT_EQ(!security->as_array().empty(), asks) << method << " " << path;
  }
  EXPECT_EQ(listed, wanted);
}

// A request that each route with fields takes, so that what is wrong with it is the one field that a test
// adds.
std::string valid_body(std::string_view path) {
  const std::string chat = R"("messages":[{"role":"user","content":"hi"}],)";
  if (path == "/v1/messages" || path == "/v1/messages/count_tokens") return chat + R"("max_tokens":2,)";
  if (path == "/api/generate" || path == "/api/embeddings") return R"("prompt":"x",)";
  if (path == "/v1/responses" || path == "/v1/responses/input_tokens") return R"("input":"x",)";
  if (path == "/v1/embeddings" || path == "/api/embed") return R"("input":"x",)";
  if (path == "/infill") return R"("input_prefix":"a","input_suffix":"b",)";
  if (path.ends_with("/completion") || path == "/v1/completions" || path == "/completions")
    return R"("prompt":"x",)";
  if (path.find("fim") != path.npos || path.find("FIM") != path.npos)
    return R"("prefix":["a"],"suffix":["b"],)";
  if (path.ends_with("translate")) return R"("target_lang":"en","text_list":["a"],)";
  if (path.find("multi_state") != path.npos) return R"("session_id":"s","dialogue_idx":0,"contents":["a"],)";
  if (path == "/state/chat/completions") return R"("session_id":"s","contents":["a"],)";
  if (path.ends_with("/chat/completions") && !path.starts_with("/v2")) return chat;
  if (path.starts_with("/v2") || path.find("batch") != path.npos) return R"("contents":["a"],)";
  if (path == "/apply-template") return chat;
  if (path == "/tokenize") return R"("content":"x",)";
  if (path == "/loadmodel") return R"("model_filename":"m","model_viewname":"M",)";
  if (path == "/loadstatemodel") return R"("state_filename":"s","state_viewname":"S",)";
  if (path == "/mrss_loadstatemodel") return R"("state_filenames":["a"],"state_viewname":"S",)";
  if (path == "/mrss_set_gatingweight") return R"("state_viewname":"S","state_gatingweight":[1],)";
  return {};
}

// No field of that type.
std::string_view wrong_value(std::string_view type) {
  if (type == "string" || type == "array" || type == "object") return "17";
  return R"("wrong")";
}

// A client that is made from the document asks for exactly these paths.
TEST(Openapi, NamesWhatStandsBehindAnId) {
  const auto document = parse_json(ServerRig().get("/openapi.json").body);
  ASSERT_TRUE(document.ok());
  const std::pair<std::string_view, std::set<std::string_view>> wanted[] = {
      {"/v1/sessions/{id}", {"delete"}},       {"/v1/sessions/{id}/state", {"get", "put"}},
      {"/v1/sessions/{id}/fork", {"post"}},    {"/v1/responses/{id}", {"get", "delete"}},
      {"/v1/responses/{id}/cancel", {"post"}}, {"/v1/responses/{id}/input_items", {"get"}}};
  for (const auto& [path, methods] : wanted) {
    const JsonValue* operations = document->find("paths")->find(path);
    ASSERT_NE(operations, nullptr) << path;
    std::set<std::string_view> found;
    for (const auto& [method, operation] : operations->as_object().members()) {
      found.insert(method);
      EXPECT_NE(operation.find("parameters"), nullptr) << method << " " << path;
    }
    EXPECT_EQ(found, methods) << path;
  }
}

TEST(Openapi, TellsOfNoFieldThatARouteDoesNotTake) {
  AdminRig rig;
  for (const Route& route : routes()) {
    const RouteNote* note = find_route_note(route.path);
    if (route.method != "POST" || route.takes_bytes || !note) continue;
    const std::string path = path_with(route.path, "s");
    for (const auto& group : note->fields) {
      for (const FieldNote& field : group) {
        if (field.type.empty()) continue;
        const std::string body =
            fmt::format("{{{}\"{}\":{}}}", valid_body(route.path), field.name, wrong_value(field.type));
        const Reply reply = rig.post(path, body);
        EXPECT_EQ(reply.status, 400) << path << " " << body << " " << reply.body;
        EXPECT_THAT(reply.body, HasSubstr(std::string(field.name))) << path << " " << body;
      }
    }
  }
}

}  // namespace
}  // namespace fulmar::testing
