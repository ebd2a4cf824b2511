// Ollama's API at the HTTP boundary.
#include <gmock/gmock.h>

#include "server/admin_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// The lines of a stream, each one JSON text; times replaced.
std::vector<std::string> lines_of(const std::string& stream) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = std::min(stream.find('\n', at), stream.size());
    std::string line = stream.substr(at, end - at);
    EXPECT_TRUE(parse_json(line).ok()) << line;
    const std::string lead = "\"created_at\":\"";
    if (const size_t time = line.find(lead); time != std::string::npos) {
      const size_t begin = time + lead.size();
      line.replace(begin, line.find('"', begin) - begin, "t");
    }
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

std::string chat(const std::string& more = "") {
  return R"({"model":"tiny-rwkv7:latest","messages":[{"role":"user","content":"hi"}])" + more + "}";
}

TEST(OllamaChat, StreamsLinesByDefault) {
  ServerRig rig;
  const Reply reply = rig.post("/api/chat", chat());
  EXPECT_EQ(reply.headers.get("Content-Type"), "application/x-ndjson");
  const auto lines = lines_of(reply.body);
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(
      lines[0],
      R"({"model":"tiny-rwkv7:latest","created_at":"t","message":{"role":"assistant","content":"He"},"done":false})");
  EXPECT_THAT(
      lines[4],
      HasSubstr(
          R"("message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":)"));
  EXPECT_THAT(lines[4], HasSubstr(R"("prompt_eval_count":20,)"));
  EXPECT_THAT(lines[4], HasSubstr(R"("eval_count":4,)"));
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: hi\n\nAssistant:");
  EXPECT_THAT(rig.last_ask().stop.texts, ElementsAre("\n\nUser:", "\nUser:"));
}

TEST(OllamaChat, OptionsAreTheServersOwn) {
  ServerRig rig;
  const Reply reply = rig.post(
      "/api/chat",
      chat(R"(,"stream":false,"options":{"num_predict":3,"temperature":0.5,"top_k":7,"seed":9,"stop":["X"],)"
           R"("num_ctx":4096,"repeat_penalty":1.1},"keep_alive":"5m")"));
  EXPECT_THAT(reply.body, HasSubstr(R"("content":"Hello wor"},"done":true,"done_reason":"length")"));
  EXPECT_EQ(rig.last_ask().max_tokens, 3);
  EXPECT_FLOAT_EQ(rig.last_ask().sampling.temperature, 0.5f);
  EXPECT_EQ(rig.last_ask().sampling.top_k, 7);
  EXPECT_EQ(rig.last_ask().sampling.seed, 9u);
  EXPECT_THAT(rig.last_ask().stop.texts, ElementsAre("X", "\n\nUser:", "\nUser:"));
  rig.post("/api/chat", chat(R"(,"options":{"num_predict":-1})"));
  EXPECT_EQ(rig.last_ask().max_tokens, 4096);
}

TEST(OllamaChat, ThinkingAndCallsAreApart) {
  ServerRig rig({}, [](const Ask&) {
    return Script{.pieces = {">\nHm", "</think>\n<tool_call>{\"name\":\"add\",",
                             "\"arguments\":{\"x\":1}}</tool_call>"},
                  .stop_id = 0};
  });
  const std::string body =
      rig.post(
             "/api/chat",
             chat(R"(,"stream":false,"think":true,"tools":[{"type":"function","function":{"name":"add"}}])"))
          .body;
  EXPECT_THAT(body, HasSubstr(R"("content":"","thinking":"Hm","tool_calls":[{"id":"call_)"));
  EXPECT_THAT(body, HasSubstr(R"("function":{"index":0,"name":"add","arguments":{"x":1}}}]})"));
  EXPECT_THAT(rig.tokenizer.decode(rig.last_ask().prompt), ::testing::EndsWith("Assistant: <think"));
}

TEST(OllamaChat, AnswersOfToolsFindTheirCalls) {
  ServerRig rig;
  const char* turns =
      R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[)"
      R"({"function":{"name":"a","arguments":{}}},{"function":{"name":"b","arguments":{"y":2}}}]},)"
      R"({"role":"tool","content":"from b","tool_name":"b"},{"role":"tool","content":"from a"}]})";
  EXPECT_EQ(rig.post("/api/chat", turns).status, 200);
  EXPECT_THAT(rig.tokenizer.decode(rig.last_ask().prompt),
              HasSubstr("Tool: from b\n\nTool: from a\n\nAssistant:"));
  const Reply stray = rig.post("/api/chat", R"({"messages":[{"role":"tool","content":"x"}]})");
  EXPECT_EQ(stray.status, 400);
  EXPECT_THAT(stray.body, HasSubstr(R"({"error":"tool_call_id is '')"));
}

TEST(OllamaChat, FormatsConstrain) {
  ServerRig rig;
  rig.post("/api/chat", chat(R"(,"format":"json")"));
  EXPECT_NE(rig.last_ask().mask, nullptr);
  rig.post("/api/chat", chat(R"(,"format":{"type":"object","properties":{},"additionalProperties":false})"));
  EXPECT_NE(rig.last_ask().mask, nullptr);
  rig.post("/api/chat", chat(R"(,"format":"")"));
  EXPECT_EQ(rig.last_ask().mask, nullptr);
}

TEST(OllamaChat, RefusesInItsOwnShape) {
  const ServerRig rig;
  const auto refusal = [&](const std::string& body) {
    const Reply reply = rig.post("/api/chat", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_TRUE(reply.body.starts_with(R"({"error":")")) << reply.body;
    return reply.body;
  };
  EXPECT_THAT(refusal(R"({"messages":7})"), HasSubstr("'messages'"));
  EXPECT_THAT(refusal(R"({"messages":[{"content":"x"}]})"), HasSubstr("'messages[0]' has no role"));
  EXPECT_THAT(refusal(R"({"messages":[{"role":"user","content":"x"},{"role":"user","content":[1]}]})"),
              HasSubstr("'messages[1].content' is array of 1; wanted a string"));
  EXPECT_THAT(refusal(R"({"messages":[{"role":7,"content":"x"}]})"), HasSubstr("'messages[0].role'"));
  EXPECT_THAT(refusal(R"({"messages":[{"role":"user","content":"x","images":["aGk="]}]})"),
              HasSubstr("only text"));
  EXPECT_THAT(refusal(chat(R"(,"format":7)")), HasSubstr("'format'"));
  EXPECT_THAT(refusal(chat(R"(,"options":{"temperature":"hot"})")), HasSubstr("'temperature'"));
  EXPECT_THAT(refusal(chat(R"(,"options":{"num_predict":"many"})")), HasSubstr("options.num_predict"));
  EXPECT_THAT(refusal(chat(R"(,"think":"sideways")")), HasSubstr("reasoning_effort is 'sideways'"));
}

TEST(OllamaGenerate, RendersFillsAndGoesOn) {
  ServerRig rig;
  const auto prompt_of = [&](const std::string& body) {
    const Reply reply = rig.post("/api/generate", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return rig.tokenizer.decode(rig.last_ask().prompt);
  };
  EXPECT_EQ(prompt_of(R"({"prompt":"hi","system":"Be brief."})"),
            "System: Be brief.\n\nUser: hi\n\nAssistant:");
  EXPECT_EQ(prompt_of(R"({"prompt":"hi","raw":true})"), "hi");
  EXPECT_TRUE(rig.last_ask().stop.texts.empty());
  EXPECT_EQ(prompt_of(R"({"prompt":"a","suffix":"b"})"),
            "\u273Fprefix\u273F\u273Fsuffix\u273Fb\u273Fmiddle\u273Fa");
  EXPECT_THAT(rig.post("/api/generate", R"({"prompt":"hi","stream":false})").body,
              HasSubstr(R"("response":"Hello world","done":true)"));
}

TEST(OllamaGenerate, AnEmptyRequestFindsTheModelLoaded) {
  const ServerRig rig;
  EXPECT_THAT(rig.post("/api/generate", R"({"model":"tiny-rwkv7"})").body,
              HasSubstr(R"("response":"","done":true,"done_reason":"load"})"));
  EXPECT_THAT(rig.post("/api/chat", R"({"model":"tiny-rwkv7","messages":[]})").body,
              HasSubstr(R"("done_reason":"load"})"));
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(OllamaModels, AreListedAndShown) {
  const ServerRig rig;
  for (const char* list : {"/api/tags", "/api/ps"}) {
    EXPECT_THAT(rig.get(list).body,
                HasSubstr(R"({"models":[{"name":"tiny-rwkv7","model":"tiny-rwkv7","size":0,"digest":")"));
  }
  const Reply shown = rig.post("/api/show", R"({"model":"tiny-rwkv7:latest"})");
  EXPECT_EQ(shown.status, 200);
  EXPECT_THAT(shown.body, HasSubstr(R"("template":"User: {{ .Prompt }}\n\nAssistant:")"));
  EXPECT_THAT(shown.body, HasSubstr(R"("capabilities":["completion","tools","insert","embedding"])"));
  const Reply unknown = rig.post("/api/show", R"({"model":"other"})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, R"({"error":"model 'other' not found"})");
  EXPECT_THAT(rig.get("/api/version").body, HasSubstr(R"({"version":")"));
}

TEST(OllamaModels, InstalledOnesAreListedShownAndLoadedWhenAskedFor) {
  AdminRig rig;
  const std::string ask =
      R"({"model":"owner/pulled:latest","stream":false,"messages":[{"role":"user","content":"hi"}]})";
  EXPECT_THAT(rig.get("/api/tags").body,
              HasSubstr(R"("name":"owner/pulled","model":"owner/pulled","size":77)"));
  EXPECT_THAT(rig.get("/api/ps").body, Not(HasSubstr("owner/pulled")));
  const Reply shown = rig.post("/api/show", R"({"model":"pulled"})");
  EXPECT_EQ(shown.status, 200);
  EXPECT_THAT(shown.body, HasSubstr(R"("parameter_size":"1.5B")"));
  EXPECT_EQ(rig.admin.loads, 0) << "a description loads nothing";

  const Reply answer = rig.post("/api/chat", ask);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr("Hello world"));
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: hi\n\nAssistant:") << "the body was kept";
  EXPECT_EQ(rig.post("/api/chat", ask).status, 200);
  EXPECT_EQ(rig.admin.loads, 1) << "it stays loaded";
  EXPECT_THAT(rig.get("/api/ps").body, HasSubstr("owner/pulled"));
  EXPECT_EQ(rig.models.find({}, "", false)->id, "tiny-rwkv7") << "the default stays";
  EXPECT_EQ(rig.post("/api/generate", R"({"model":"unknown","prompt":"x","stream":false})").status, 200);
  EXPECT_EQ(rig.admin.loads, 1) << "unknown names mean the default";
}

TEST(OllamaModels, AreLoadedForThoseWhoMayLoad) {
  const std::string ask = R"({"model":"pulled","stream":false,"prompt":"hi"})";
  ServerOptions options;
  options.password = "all";
  ApiKey plain{.name = "plain", .hash = hash_of_key("plain")};
  ApiKey admin{.name = "admin", .hash = hash_of_key("admin"), .routes = {"/api/*", "/loadmodel"}};
  options.api_keys = std::vector<ApiKey>{plain, admin};
  const auto loads = [&](const char* key) {
    AdminRig rig(options);
    Headers headers;
    headers.set("Authorization", std::string("Bearer ") + key);
    EXPECT_EQ(rig.post("/api/generate", ask, headers).status, 200) << key;
    return rig.admin.loads;
  };
  EXPECT_EQ(loads("all"), 1);
  EXPECT_EQ(loads("admin"), 1);
  EXPECT_EQ(loads("plain"), 0);
  AdminRig open;
  Headers foreign;
  foreign.set("Sec-Fetch-Site", "cross-site");
  EXPECT_EQ(open.post("/api/generate", ask, foreign).status, 200);
  EXPECT_EQ(open.admin.loads, 0) << "pages of other sites load nothing";
  EXPECT_EQ(open.post("/api/pull", R"({"model":"owner/tiny"})", foreign).status, 403);
  open.admin.load_end = Error{ErrorKind::invalid, "needs 9 MiB; 1 MiB are free"};
  const Reply refused = open.post("/api/generate", ask);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.body, R"({"error":"needs 9 MiB; 1 MiB are free"})");
}

TEST(OllamaPull, TellsHowItGoes) {
  AdminRig rig;
  const auto lines = lines_of(rig.post("/api/pull", R"({"model":"owner/tiny"})").body);
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(lines[0], R"({"status":"pulling manifest"})");
  EXPECT_THAT(lines[2], HasSubstr(R"("status":"pulling model.safetensors","digest":"sha256:)"));
  EXPECT_THAT(lines[2], HasSubstr(R"("total":1000,"completed":500})"));
  EXPECT_EQ(lines[4], R"({"status":"success","model":"tiny.safetensors"})");
  EXPECT_EQ(rig.post("/api/pull", R"({"model":"owner/tiny","stream":false})").body,
            R"({"status":"success","model":"tiny.safetensors"})");
}

TEST(OllamaPull, SaysWhatFailed) {
  AdminRig rig;
  EXPECT_EQ(rig.post("/api/pull", R"({"model":"nonsense"})").status, 400);
  EXPECT_EQ(rig.post("/api/pull", "{}").status, 400);
  rig.admin.pull_end = Error{ErrorKind::unavailable, "the hub is gone"};
  EXPECT_EQ(lines_of(rig.post("/api/pull", R"({"model":"owner/tiny"})").body).back(),
            R"({"error":"the hub is gone"})");
  EXPECT_EQ(rig.post("/api/pull", R"({"model":"owner/tiny","stream":false})").status, 503);
  const ServerRig without;
  EXPECT_EQ(without.post("/api/pull", R"({"model":"owner/tiny"})").status, 501);
}

TEST(OllamaEmbed, GivesVectorsInBothShapes) {
  const ServerRig rig;
  EXPECT_THAT(rig.post("/api/embed", R"({"input":["a","bc"]})").body,
              HasSubstr(R"({"model":"tiny-rwkv7","embeddings":[[],[]],"total_duration":)"));
  EXPECT_EQ(rig.post("/api/embeddings", R"({"prompt":"a"})").body, R"({"embedding":[]})");
  EXPECT_EQ(rig.post("/api/embed", "{}").body, R"({"error":"'input' is required"})");
}

}  // namespace
}  // namespace fulmar::testing
