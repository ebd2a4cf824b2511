// Anthropic's API at the HTTP boundary: what reaches the engine, whole answers, events, errors.
#include <gmock/gmock.h>

#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string request(const std::string& more = "", const char* said = R"([{"role":"user","content":"hi"}])") {
  return std::string(R"({"max_tokens":8,"messages":)") + said + more + "}";
}

constexpr const char* kTools =
    R"(,"tools":[{"name":"add","description":"Adds","input_schema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}])";

// Names and payloads of a stream; checks that each name is its payload's type.
std::vector<std::string> named_events(const std::string& stream) {
  std::vector<std::string> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    const size_t line = stream.find("\ndata: ", at);
    if (end == std::string::npos || line == std::string::npos) break;
    const std::string name = stream.substr(at, line - at), data = stream.substr(line + 7, end - line - 7);
    EXPECT_TRUE(name.starts_with("event: ")) << name;
    const auto payload = parse_json(data);
    EXPECT_TRUE(payload.ok()) << data;
    EXPECT_EQ(name.substr(7), payload->find("type")->as_string());
    events.push_back(data);
    at = end + 2;
  }
  return events;
}

std::string steady_id(std::string text) {
  for (const std::string lead : {"\"msg_", "\"toolu_"}) {
    for (size_t at = text.find(lead); at != std::string::npos; at = text.find(lead, at + 1)) {
      const size_t begin = at + lead.size();
      text.replace(begin, text.find('"', begin) - begin, "x");
    }
  }
  return text;
}

TEST(Messages, AWholeAnswer) {
  ServerRig rig;
  const Reply reply = rig.post("/v1/messages", request(R"(,"model":"claude-x","system":"Be brief.")"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(
      steady_id(reply.body),
      R"({"id":"msg_x","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text",)"
      R"("text":"Hello world"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":39,)"
      R"("cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":4}})");
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "System: Be brief.\n\nUser: hi\n\nAssistant:");
  EXPECT_EQ(rig.last_ask().max_tokens, 8);
}

TEST(Messages, BlocksBecomeTurns) {
  ServerRig rig;
  const Reply reply = rig.post(
      "/v1/messages",
      request(kTools,
              R"([{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},)"
              R"({"type":"text","text":"b"}]},)"
              R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},)"
              R"({"type":"text","text":"c"},{"type":"tool_use","id":"t1","name":"add","input":{"x":1}}]},)"
              R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"2"},)"
              R"({"type":"text","text":"d"}]}])"));
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_THAT(
      rig.tokenizer.decode(rig.last_ask().prompt),
      HasSubstr(
          "User: a\nb\n\nAssistant: c\n<tool_call>{\"name\":\"add\",\"arguments\":{\"x\":1}}</tool_call>"
          "\n\nTool: 2\n\nUser: d\n\nAssistant:"));
}

TEST(Messages, StopsHoldBesideThoseOfTheTurn) {
  ServerRig rig({}, [](const Ask&) { return Script{.pieces = {"a"}, .stop_text = "END"}; });
  const Reply reply = rig.post("/v1/messages", request(R"(,"stop_sequences":["END"])"));
  EXPECT_THAT(rig.last_ask().stop.texts, ElementsAre("END", "\n\nUser:", "\nUser:"));
  EXPECT_THAT(reply.body, HasSubstr(R"("stop_reason":"stop_sequence","stop_sequence":"END")"));
  ServerRig turn({}, [](const Ask&) { return Script{.pieces = {"a"}, .stop_text = "\n\nUser:"}; });
  EXPECT_THAT(turn.post("/v1/messages", request()).body,
              HasSubstr(R"("stop_reason":"end_turn","stop_sequence":null)"));
  ServerRig full({}, [](const Ask&) { return Script{.pieces = {"a"}, .reason = FinishReason::length}; });
  EXPECT_THAT(full.post("/v1/messages", request()).body, HasSubstr(R"("stop_reason":"max_tokens")"));
}

TEST(Messages, AStreamOfThinkingAndText) {
  ServerRig rig({}, [](const Ask&) {
    return Script{.pieces = {">\n", "Hmm", "</think>", "\nYes"}, .stop_id = 0};
  });
  const Reply reply = rig.post(
      "/v1/messages", request(R"(,"stream":true,"thinking":{"type":"enabled","budget_tokens":1024})"));
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: hi\n\nAssistant: <think");
  EXPECT_EQ(reply.headers.get("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
  EXPECT_THAT(
      named_events(steady_id(reply.body)),
      ElementsAre(
          R"({"type":"message_start","message":{"id":"msg_x","type":"message","role":"assistant",)"
          R"("model":"tiny-rwkv7","content":[],"stop_reason":null,"stop_sequence":null,"usage":)"
          R"({"input_tokens":27,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}})",
          R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}})",
          R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hmm"}})",
          R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":""}})",
          R"({"type":"content_block_stop","index":0})",
          R"({"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}})",
          R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Yes"}})",
          R"({"type":"content_block_stop","index":1})",
          R"({"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":)"
          R"({"input_tokens":27,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":4}})",
          R"({"type":"message_stop"})"));
}

TEST(Messages, CallsOfToolsAreBlocks) {
  const auto play = [](const Ask&) {
    return Script{.pieces = {"Ok ", "<tool_call>{\"name\":\"add\",\"argu", "ments\":{\"x\":1}}</tool_call>"},
                  .stop_id = 0};
  };
  ServerRig rig({}, play);
  EXPECT_THAT(
      steady_id(rig.post("/v1/messages", request(kTools)).body),
      HasSubstr(R"("content":[{"type":"text","text":"Ok "},{"type":"tool_use","id":"toolu_x","name":"add",)"
                R"("input":{"x":1}}],"stop_reason":"tool_use")"));
  const auto events = named_events(
      steady_id(rig.post("/v1/messages", request(kTools + std::string(R"(,"stream":true)"))).body));
  ASSERT_EQ(events.size(), 9u);
  EXPECT_EQ(
      events[4],
      R"({"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_x","name":"add","input":{}}})");
  EXPECT_EQ(
      events[5],
      R"({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"x\":1}"}})");
  EXPECT_THAT(events[7], HasSubstr(R"("stop_reason":"tool_use")"));
}

TEST(Messages, TheChoiceOfToolsIsKept) {
  ServerRig rig;
  const auto mask_of = [&](const char* choice) {
    const Reply reply =
        rig.post("/v1/messages", request(kTools + std::string(R"(,"tool_choice":)") + choice));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return rig.last_ask().mask != nullptr;
  };
  EXPECT_TRUE(mask_of(R"({"type":"auto"})"));
  EXPECT_FALSE(mask_of(R"({"type":"none"})"));
  EXPECT_TRUE(mask_of(R"({"type":"any","disable_parallel_tool_use":true})"));
  EXPECT_TRUE(mask_of(R"({"type":"tool","name":"add"})"));
}

TEST(Messages, CountsTokens) {
  ServerRig rig;
  EXPECT_EQ(rig.post("/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"hi"}]})").body,
            R"({"input_tokens":20})");
}

TEST(Messages, RefusesInItsOwnShape) {
  ServerOptions options;
  options.password = "sesame";
  ServerRig rig(options);
  const Reply closed = rig.post("/v1/messages", request());
  EXPECT_EQ(closed.status, 401);
  EXPECT_THAT(closed.body, HasSubstr(R"({"type":"error","error":{"type":"authentication_error","message":)"));
  const auto refusal = [&](const std::string& body) {
    const Reply reply = rig.post("/v1/messages", body, header("X-Api-Key", "sesame"));
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_THAT(reply.body,
                HasSubstr(R"({"type":"error","error":{"type":"invalid_request_error","message":")"));
    return reply.body;
  };
  EXPECT_EQ(rig.post("/v1/messages", request(), header("X-Api-Key", "sesame")).status, 200);
  EXPECT_THAT(refusal("{"), HasSubstr("Invalid JSON"));
  EXPECT_THAT(refusal(R"({"messages":[{"role":"user","content":"x"}]})"),
              HasSubstr("max_tokens: Field required"));
  EXPECT_THAT(refusal(R"({"max_tokens":1})"), HasSubstr("messages: wanted"));
  EXPECT_THAT(refusal(request("", R"([{"role":"judge","content":"x"}])")), HasSubstr("messages[0].role"));
  EXPECT_THAT(refusal(request("", R"([{"role":"user","content":7}])")), HasSubstr("messages[0].content"));
  EXPECT_THAT(refusal(request("", R"([{"role":"user","content":[{"type":"image","source":{}}]}])")),
              HasSubstr("messages[0].content[0]' is a block of type 'image'"));
  EXPECT_THAT(refusal(request("", R"([{"role":"user","content":[{"type":"tool_result","content":"x"}]}])")),
              HasSubstr("has no tool_use_id"));
  EXPECT_THAT(
      refusal(request(
          "", R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}])")),
      HasSubstr("wanted the id of an earlier tool call"));
  EXPECT_THAT(refusal(request(R"(,"thinking":{"type":"sometimes"})")), HasSubstr("thinking.type"));
  EXPECT_THAT(refusal(request(R"(,"tool_choice":{"type":"some"})")), HasSubstr("tool_choice.type"));
  EXPECT_THAT(refusal(request(R"(,"system":[{"type":"image"}])")), HasSubstr("only text blocks"));
  EXPECT_THAT(refusal(request(R"(,"temperature":"hot")")), HasSubstr("'temperature'"));
}

TEST(Messages, ModelsAreListedInItsShapeForItsClients) {
  const ServerRig rig;
  EXPECT_EQ(rig.get("/v1/models", header("anthropic-version", "2023-06-01")).body,
            R"({"data":[{"type":"model","id":"tiny-rwkv7","display_name":"tiny-rwkv7",)"
            R"("created_at":"2023-11-14T22:13:20.000000Z"}],"has_more":false,"first_id":"tiny-rwkv7",)"
            R"("last_id":"tiny-rwkv7"})");
}

}  // namespace
}  // namespace fulmar::testing
