// What chats become under the template of marked turns, and what of it a request can choose.
#include <gmock/gmock.h>

#include "server/generate/tool_calls.h"
#include "server/server_rig.h"
#include "server/status/openapi.h"

namespace fulmar::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void marked(ServedModel& model) {
  model.prompt_template = find_prompt_template("g1h");
  model.stops = {.chat_ids = {10060},
                 .chat_texts = {},
                 .turn_ids = {10060},
                 .turn_texts = {},
                 .infill_ids = {10060},
                 .infill_texts = {}};
  model.thinks = true;
}

std::string chat(const std::string& more = "") {
  return R"({"messages":[{"role":"user","content":"hi"}])" + more + "}";
}

// The last row's prompt behind the token that it must begin with.
std::string prompt_of(ServerRig& rig) {
  const std::vector<int32_t>& ids = rig.last_ask().prompt;
  EXPECT_EQ(ids.front(), 0);
  return rig.tokenizer.decode(std::span(ids).subspan(1));
}

TEST(MarkedTemplate, PromptsBeginWithTokenZeroAndEndAtTheMark) {
  ServerRig rig({}, nullptr, marked);
  EXPECT_EQ(rig.post("/v1/chat/completions", chat()).status, 200);
  EXPECT_EQ(prompt_of(rig), "User\u273Fhi\u273F\nBot\u273F<think></think>");
  EXPECT_THAT(rig.last_ask().stop.ids, ElementsAre(0, 10060));
  EXPECT_EQ(rig.post("/v1/chat/completions", chat(R"(,"stop":"END")")).status, 200);
  EXPECT_THAT(rig.last_ask().stop.ids, ElementsAre(0, 10060));
  EXPECT_THAT(rig.last_ask().stop.texts, ElementsAre("END"));
}

TEST(MarkedTemplate, EnableThinkingOpensTheBlock) {
  ServerRig rig({}, nullptr, marked);
  const auto with = [&](const char* arguments) {
    EXPECT_EQ(
        rig.post("/v1/chat/completions", chat(std::string(R"(,"chat_template_kwargs":)") + arguments)).status,
        200);
    return prompt_of(rig);
  };
  EXPECT_EQ(with(R"({"enable_thinking":true})"), "User\u273Fhi\u273F\nBot\u273F<think");
  EXPECT_EQ(with(R"({"enable_thinking":false})"), "User\u273Fhi\u273F\nBot\u273F<think></think>");
  EXPECT_EQ(with(R"({"enable_thinking":null,"other":1})"), "User\u273Fhi\u273F\nBot\u273F<think></think>");
  const Reply bad =
      rig.post("/v1/chat/completions", chat(R"(,"chat_template_kwargs":{"enable_thinking":"maybe"})"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_THAT(bad.body, HasSubstr("'chat_template_kwargs.enable_thinking' is string"));
}

TEST(MarkedTemplate, EnableThinkingWorksOnOlderModels) {
  ServerRig rig;
  rig.post("/v1/chat/completions", chat(R"(,"chat_template_kwargs":{"enable_thinking":true})"));
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: hi\n\nAssistant: <think");
}

TEST(MarkedTemplate, TheAdviceOfTheAuthorsHoldsWhereTheServerIsToldTo) {
  for (const bool recommended : {false, true}) {
    ServerOptions options;
    options.recommended_sampling = recommended;
    ServerRig rig(options, nullptr, marked);
    rig.post("/v1/chat/completions", chat(R"(,"enable_think":true,"frequency_penalty":0.3)"));
    SamplingParams sampling = rig.last_ask().sampling;
    EXPECT_FLOAT_EQ(sampling.temperature, recommended ? 0.96f : 1.0f);
    EXPECT_FLOAT_EQ(sampling.top_p, recommended ? 0.76f : 0.6f);
    EXPECT_EQ(sampling.top_k, recommended ? 32 : 20);
    EXPECT_FLOAT_EQ(sampling.decay, recommended ? 0.988f : 0.996f);
    EXPECT_FLOAT_EQ(sampling.frequency, 0.3f);
    rig.post("/v1/chat/completions", chat());
    sampling = rig.last_ask().sampling;
    EXPECT_FLOAT_EQ(sampling.top_p, recommended ? 0.28f : 0.6f);
    EXPECT_FLOAT_EQ(sampling.presence, recommended ? 0.0f : 1.0f);
  }
}

TEST(MarkedTemplate, CallsAreReadFromFences) {
  ServerRig rig(
      {},
      [](const Ask&) {
        return Script{.pieces = {"Let me see.\n**Tool ", "Call:**\n```json\n{\"name\":\"add\",\"argu",
                                 "ments\":{\"x\":1}}\n", "```"}};
      },
      marked);
  const char* tools = R"(,"tools":[{"type":"function","function":{"name":"add"}}])";
  const std::string body = rig.post("/v1/chat/completions", chat(tools)).body;
  EXPECT_THAT(body, HasSubstr(R"("content":"Let me see.\n")"));
  EXPECT_THAT(body, HasSubstr(R"("function":{"name":"add","arguments":"{\"x\":1}"})"));
  EXPECT_THAT(body, HasSubstr(R"("finish_reason":"tool_calls")"));
  EXPECT_THAT(prompt_of(rig), HasSubstr("### `add`"));
}

TEST(MarkedTemplate, FencedCallsDoNotDependOnTheCut) {
  const std::string call = "**Tool Call:**\n```json\n{\"name\":\"add\",\"arguments\":{\"s\":\"```\"}}\n```";
  const std::string text =
      "a ```json {} ``` " + call + "\n" + call + "\n**Tool Call:**\n```json\n{\"name\":\"no\"}\n``` z";
  for (size_t step = 1; step < text.size(); step += 5) {
    ToolCallSplitter splitter({.names = {"add"}, .marks = kFencedCall});
    std::string content;
    size_t calls = 0;
    for (size_t at = 0; at < text.size(); at += step) {
      const TextAndCalls parts = splitter.feed(std::string_view(text).substr(at, step));
      content += parts.content;
      calls += parts.calls.size();
    }
    content += splitter.feed("", Ending{}).content;
    EXPECT_EQ(content, "a ```json {} ``` **Tool Call:**\n```json\n{\"name\":\"no\"}\n``` z") << step;
    EXPECT_EQ(calls, 2u) << step;
  }
}

TEST(MarkedTemplate, ASessionGoesOnBehindTheEndOfTheTurn) {
  ServerRig rig({}, nullptr, marked);
  rig.post("/v1/chat/completions", chat(R"(,"session_id":"s")"));
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().state.continuing),
            "\u273F\nUser\u273Fhi\u273F\nBot\u273F<think></think>");
}

TEST(ApplyTemplate, ShowsWhatARequestBecomes) {
  ServerRig rig({}, nullptr, marked);
  EXPECT_EQ(rig.post("/apply-template", chat(R"(,"enable_think":true)")).body,
            "{\"prompt\":\"User\u273Fhi\u273F\\nBot\u273F<think\",\"template\":\"g1h\",\"tokens\":26,"
            "\"pad_zero\":true,\"stop\":[\"\u273F\"]}");
  const Reply empty = rig.post("/apply-template", "{}");
  EXPECT_EQ(empty.status, 400);
  EXPECT_THAT(empty.body, HasSubstr("Empty prompt"));
}

}  // namespace
}  // namespace fulmar::testing
