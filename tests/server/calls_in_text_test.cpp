// Calls of functions that a model may make and need not: text is free, calls keep to their schemas.
#include <gmock/gmock.h>

#include "server/generating_routes.h"

namespace fulmar::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A function with this schema of its arguments, offered on each of the routes that take functions.
std::map<std::string, std::string> offers(const std::string& schema, bool strict = true) {
  const std::string begin = std::string(R"("name":"add","strict":)") + (strict ? "true" : "false") + ",";
  const std::string inner = begin + R"("parameters":)" + schema + "}";
  const std::string nested = R"("tools":[{"type":"function","function":{)" + inner + "}]";
  const auto body = [](const char* path, const std::string& tools) { return kBodies.at(path) + "," + tools; };
  return {
      {"/v1/chat/completions", body("/v1/chat/completions", nested)},
      {"/api/chat", body("/api/chat", nested)},
      {"/v1/responses", body("/v1/responses", R"("tools":[{"type":"function",)" + inner + "]")},
      {"/v1/messages", body("/v1/messages", R"("tools":[{)" + begin + R"("input_schema":)" + schema + "}]")}};
}

const std::string kHead = R"(<tool_call>{"name":"add","arguments":)";
const std::string kEnd = "}</tool_call>";

// Returns whether the mask left everything open in front of each byte, which it then takes.
bool leaves_free(TokenMask& mask, const std::string& text) {
  for (const char byte : text) {
    if (!mask.allowed().empty() || mask.complete()) return false;
    mask.accept(static_cast<int32_t>(static_cast<unsigned char>(byte)) + 1);
  }
  return mask.allowed().empty() && !mask.complete();
}

// Takes free text and what begins like a mark and is none.
void say(TokenMask& mask, const std::string& text) {
  for (const char byte : text) mask.accept(static_cast<int32_t>(static_cast<unsigned char>(byte)) + 1);
}

TEST(CallsInText, KeepToTheSchemaOnEachRouteAndTextIsFree) {
  ServerRig rig;
  for (const bool strict : {true, false}) {
    for (const auto& [path, body] : offers(kZip, strict)) {
      EXPECT_EQ(rig.post(path, body + "}").status, 200) << path;
      ASSERT_TRUE(rig.last_ask().mask) << path;
      const auto free = rig.last_ask().mask->fork();
      EXPECT_TRUE(leaves_free(*free, "{\"name\":\"x\"}\n\nUser: a\xFF\x01")) << path;
      say(*free, "<b> <tool_call <<tool_");
      EXPECT_TRUE(takes(*free->fork(), "call>{\"name\": \"add\", \"arguments\": {\"zip\": 1}}\n</tool_call>"))
          << path;
      EXPECT_TRUE(takes(*free, kHead.substr(6) + R"({"zip":1})" + kEnd)) << path;
      for (const std::string& wrong :
           {kHead + R"({"zap":1})", kHead + R"({"zip":2})", std::string(R"(<tool_call>{"name":"sub")"),
            std::string("<tool_call>no"), kHead + R"({"zip":1})" + kEnd + " more"}) {
        EXPECT_FALSE(takes(*rig.last_ask().mask->fork(), "<" + wrong) ||
                     takes(*rig.last_ask().mask->fork(), wrong))
            << path << wrong;
      }
    }
  }
}

TEST(CallsInText, AreSeveralOnlyWhereThatIsAsked) {
  ServerRig rig;
  const std::string call = kHead + R"({"zip":1})" + kEnd;
  const std::string body = offers(kZip).at("/v1/chat/completions");
  rig.post("/v1/chat/completions", body + "}");
  const auto several = rig.last_ask().mask->fork();
  say(*several, "a" + call);
  EXPECT_FALSE(several->complete());
  EXPECT_TRUE(takes(*several, "\n" + call));
  rig.post("/v1/chat/completions", body + R"(,"parallel_tool_calls":false})");
  const auto one = rig.last_ask().mask->fork();
  say(*one, "a" + call);
  EXPECT_TRUE(one->complete());
}

// The stops of the request and those of chats, texts and ids.
TEST(CallsInText, HoldNoStops) {
  ServerRig rig;
  for (const auto& [path, body] : offers(kZip)) {
    const std::string member = path == "/v1/messages" ? R"(,"stop_sequences":["zip"])"
                               : path == "/api/chat"  ? R"(,"options":{"stop":["zip"]})"
                                                      : R"(,"stop":["zip"])";
    const Reply reply = rig.post(path, body + member + "}");
    EXPECT_EQ(reply.status, 200) << path << reply.body;
    EXPECT_EQ(reply.headers.find("Fulmar-Warning"), nullptr) << path;
    const StopRules& stop = rig.last_ask().stop;
    EXPECT_THAT(stop.texts, ::testing::Contains("zip")) << path;
    EXPECT_THAT(stop.until, ElementsAre("<tool_call>")) << path;
    const auto mask = rig.last_ask().mask->fork();
    say(*mask, "a");
    EXPECT_TRUE(mask->heeds('z' + 1)) << path;
    say(*mask, kHead);
    EXPECT_FALSE(mask->heeds('z' + 1)) << path;
    EXPECT_TRUE(mask->heeds(0)) << path;
  }
}

TEST(CallsInText, DoNotBeginInAThinkBlock) {
  ServerRig rig;
  const std::string body = offers(kZip).at("/v1/chat/completions");
  rig.post("/v1/chat/completions", body + R"(,"think":true})");
  EXPECT_THAT(rig.last_ask().stop.until, ElementsAre("</think>", "<tool_call>"));
  const auto mask = rig.last_ask().mask->fork();
  EXPECT_TRUE(leaves_free(*mask, "a"));
  say(*mask, "<tool_call>");
  EXPECT_TRUE(leaves_free(*mask, "no call"));
  say(*mask, "</think>");
  EXPECT_TRUE(leaves_free(*mask, "b"));
  EXPECT_FALSE(takes(*mask, "<tool_call>no"));
}

// What one of the routes of OpenAI's chats answers with its think block left in the text, in pieces of `step`
// bytes: content, then "!" and the arguments of each call.
std::string answered(const std::string& path, const std::string& text, size_t step, FinishReason reason,
                     const std::string& more = {}) {
  ServerRig rig({}, [&](const Ask&) {
    Script script{.reason = reason};
    for (size_t at = 0; at < text.size(); at += step) script.pieces.push_back(text.substr(at, step));
    return script;
  });
  const std::string body = offers("{}").at("/v1/chat/completions");
  const Reply reply =
      rig.post(path, body + R"(,"think":true,"reasoning_format":"none","stream":true)" + more + "}");
  std::string content, calls;
  for (const std::string& event : events_of(reply.body)) {
    const auto json = parse_json(event);
    const JsonValue* choices = json ? json->find("choices") : nullptr;
    if (!choices || choices->as_array().empty()) continue;
    const JsonValue& delta = *choices->as_array()[0].find("delta");
    const JsonValue* words = delta.find("content");
    if (words && words->is_string()) content += words->as_string();
    const JsonValue* called = delta.find("tool_calls");
    if (!called) continue;
    const JsonValue& function = *called->as_array()[0].find("function");
    calls += (function.find("name") ? "!" : "") + function.find("arguments")->as_string();
  }
  return content + calls;
}

TEST(CallsInText, AreNoneInAThinkBlockThatStaysInTheText) {
  const std::string thought = ">\n" + kHead + "{}" + kEnd + " or \"<tool_call>\"\n</think>\n\nWell. ";
  for (const size_t step : {1u, 5u, 1000u}) {
    EXPECT_EQ(
        answered("/v1/chat/completions", thought + kHead + R"({"zip":1})" + kEnd, step, FinishReason::stop),
        "<think" + thought + R"(!{"zip":1})");
    EXPECT_EQ(answered("/openai/v1/chat/completions", thought + kHead + R"({"zip":1})" + kEnd, step,
                       FinishReason::stop),
              thought + R"(!{"zip":1})");
    // One that does not end is text to its last byte, whatever has to follow it.
    EXPECT_EQ(answered("/v1/chat/completions", ">\na <tool", step, FinishReason::length,
                       R"(,"tool_choice":"required")"),
              "<think>\na <tool");
  }
}

TEST(CallsInText, AreRefusedOrToldOfWhereASchemaCannotBeKept) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"string","pattern":"(a)\\1"}},"required":["a"]})";
  ServerRig rig;
  for (const auto& [path, body] : offers(schema)) {
    const Reply reply = rig.post(path, body + "}");
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_THAT(reply.body, HasSubstr("'pattern' at '#/properties/a'")) << path;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
  for (const auto& [path, body] : offers(schema, false)) {
    const Reply reply = rig.post(path, body + "}");
    EXPECT_EQ(reply.status, 200) << path << reply.body;
    const std::string* warning = reply.headers.find("Fulmar-Warning");
    EXPECT_THAT(warning ? *warning : "", HasSubstr("'pattern' at '#/properties/a'")) << path;
    const auto mask = rig.last_ask().mask->fork();
    say(*mask, kHead);
    EXPECT_TRUE(takes(*mask, R"({"a":"xy"})")) << path;
  }
}

}  // namespace
}  // namespace fulmar::testing
