// Calls of functions at the HTTP boundary: which may be made, what they look like, and what becomes of those
// that an answer's end cuts.
#include "server/generate/tool_calls.h"

#include <gmock/gmock.h>

#include "net/json_prefix.h"
#include "net/json_writer.h"
#include "server/tool_requests.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Tools, AreDescribedAndTheirCallsReturned) {
  ServerRig rig({}, [](const Ask&) { return Script{.pieces = {"Wait. <tool", kCall.substr(5)}}; });
  const Reply reply = rig.post("/v1/chat/completions", chat(kTools));
  const auto body = parse_json(reply.body);
  ASSERT_TRUE(body.ok());
  const JsonValue& choice = body->find("choices")->as_array().at(0);
  EXPECT_EQ(choice.find("finish_reason")->as_string(), "tool_calls");
  const JsonValue& message = *choice.find("message");
  EXPECT_EQ(message.find("content")->as_string(), "Wait. ");
  const JsonValue& call = message.find("tool_calls")->as_array().at(0);
  EXPECT_TRUE(call.find("id")->as_string().starts_with("call_"));
  EXPECT_EQ(call.find("function")->find("arguments")->as_string(), R"({"x":1})");
  const std::string prompt = rig.tokenizer.decode(rig.last_ask().prompt);
  EXPECT_NE(prompt.find(R"({"name":"now"})"), std::string::npos) << prompt;
}

TEST(Tools, NoneIsAsWithoutThem) {
  ServerRig rig({}, [](const Ask&) { return Script{.pieces = {kCall}}; });
  const Reply reply =
      rig.post("/v1/chat/completions", chat(std::string(R"("tool_choice":"none",)") + kTools));
  EXPECT_NE(reply.body.find("<tool_call>"), std::string::npos);
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt).find("now"), std::string::npos);
}

TEST(Tools, RequiredForcesTheGrammar) {
  ServerRig rig({}, obeying(kCall));
  const Reply reply = rig.post(
      "/v1/chat/completions",
      chat(std::string(R"("tool_choice":"required","parallel_tool_calls":false,"stream":true,)") + kTools));
  const auto events = events_of(reply.body);
  ASSERT_EQ(events.size(), 4u) << reply.body;
  EXPECT_NE(events[1].find(R"("function":{"name":"add","arguments":""}}])"), std::string::npos) << events[1];
  EXPECT_NE(events[2].find(R"("tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}])"),
            std::string::npos)
      << events[2];
  EXPECT_NE(events[3].find(R"("finish_reason":"tool_calls")"), std::string::npos) << events[3];
}

// Its schema is kept where it can be: "not" asks for nothing here, since one number cannot be told from
// others.
TEST(Tools, RequiredDoesNotFailForSchemasOfFunctionsThatAreNotStrict) {
  const auto tools = [](const std::string& more) {
    return R"("tool_choice":"required","parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"add")" +
           more +
           R"(,"parameters":{"type":"object","properties":{"x":{"type":"integer","not":{"const":0}}},"required":["x"]}}}])";
  };
  ServerRig rig({}, obeying(kCall));
  EXPECT_EQ(rig.post("/v1/chat/completions", chat(tools(""))).status, 200);
  EXPECT_EQ(rig.post("/v1/chat/completions", chat(tools(R"(,"strict":false)"))).status, 200);
  const Reply strict = rig.post("/v1/chat/completions", chat(tools(R"(,"strict":true)")));
  EXPECT_EQ(strict.status, 400);
  EXPECT_NE(strict.body.find("#/properties/x/not"), std::string::npos) << strict.body;
}

TEST(Tools, OfTypesThatOthersRunAreLeftOut) {
  const std::string tools =
      R"("tools":[{"type":"web_search"},{"type":"namespace","name":"n","tools":[]},{"type":"function","function":{"name":"now"}}])";
  ServerRig rig;
  EXPECT_EQ(rig.post("/v1/chat/completions", chat(tools)).status, 200);
  const std::string prompt = rig.tokenizer.decode(rig.last_ask().prompt);
  EXPECT_NE(prompt.find(R"({"name":"now"})"), std::string::npos) << prompt;
  EXPECT_EQ(prompt.find("web_search"), std::string::npos) << prompt;
  EXPECT_EQ(rig.post("/v1/responses", R"({"input":"x","tools":[{"type":"web_search"}],"tool_choice":"auto"})")
                .status,
            200);
  for (const std::string choice : {R"("required")", R"({"type":"web_search"})"}) {
    const Reply refused =
        rig.post("/v1/chat/completions", chat(R"("tools":[{"type":"web_search"}],"tool_choice":)" + choice));
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("web_search"), std::string::npos) << refused.body;
  }
}

TEST(Tools, OfOneNameAreRefusedByItOnEachRoute) {
  ServerRig rig;
  const std::string nested = R"({"type":"function","function":{"name":"add"}})";
  const std::string chat_body = chat(R"("tools":[)" + nested + "," + nested + "]");
  const std::string flat = R"({"type":"function","name":"add"})";
  const std::string anthropic = R"({"name":"add","input_schema":{"type":"object"}})";
  const std::pair<const char*, std::string> kRequests[] = {
      {"/v1/chat/completions", chat_body},
      {"/api/chat", chat_body},
      {"/v1/responses", R"({"input":"x","tools":[)" + flat + "," + flat + "]}"},
      {"/v1/messages", R"({"max_tokens":1,"messages":[{"role":"user","content":"hi"}],"tools":[)" +
                           anthropic + "," + anthropic + "]}"}};
  for (const auto& [path, body] : kRequests) {
    const Reply reply = rig.post(path, body);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_THAT(reply.body, HasSubstr("name' is 'add', as an earlier function's is")) << path;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(Tools, StrictIsTrueOrFalse) {
  const ServerRig rig;
  const Reply reply =
      rig.post("/v1/chat/completions",
               chat(R"("tools":[{"type":"function","function":{"name":"f","strict":"yes"}}])"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("'tools[0].function.strict' is string"));
}

TEST(Tools, AllowedToolsAreThoseOffered) {
  const auto choice = [](const std::string& inner) {
    return std::string(R"("tool_choice":{"type":"allowed_tools",)") + inner + "}," + kTools;
  };
  const std::string nested =
      R"("allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"now"}}]})";
  const std::string flat = R"("mode":"required","tools":[{"type":"function","name":"add"}])";
  ServerRig rig;
  EXPECT_EQ(rig.post("/v1/chat/completions", chat(choice(nested))).status, 200);
  const std::string prompt = rig.tokenizer.decode(rig.last_ask().prompt);
  EXPECT_NE(prompt.find(R"({"name":"now"})"), std::string::npos) << prompt;
  EXPECT_EQ(prompt.find("add"), std::string::npos) << prompt;
  EXPECT_EQ(rig.post("/v1/chat/completions", chat(choice(flat))).status, 200);
  EXPECT_NE(rig.last_ask().mask, nullptr);
  for (const std::string wrong :
       {R"("mode":"auto","tools":[{"type":"function","name":"sub"}])", R"("mode":"any","tools":[])",
        R"("mode":"auto")", R"("mode":"required","tools":[])"}) {
    EXPECT_EQ(rig.post("/v1/chat/completions", chat(choice(wrong))).status, 400) << wrong;
  }
}

TEST(ToolCallSplitter, DoesNotDependOnTheCut) {
  const std::string text =
      "a <b> " + kCall + "\n" + kCall + " z <tool_call>{\"name\":\"no\"}</tool_call><tool_ca";
  for (size_t step = 1; step < text.size(); step += 3) {
    ToolCallSplitter splitter({.names = {"add"}});
    std::string content;
    size_t calls = 0;
    for (size_t at = 0; at < text.size(); at += step) {
      const TextAndCalls parts = splitter.feed(std::string_view(text).substr(at, step));
      content += parts.content;
      calls += parts.calls.size();
    }
    content += splitter.feed("", Ending{}).content;
    EXPECT_EQ(content, "a <b> z <tool_call>{\"name\":\"no\"}</tool_call><tool_ca") << step;
    EXPECT_EQ(calls, 2u);
  }
}

// What the splitter makes of a text that comes in these pieces, as one line: content, then NAME(ARGUMENTS).
std::string split_pieces(const ExpectedCalls& expected, const std::vector<std::string_view>& pieces,
                         FinishReason reason = FinishReason::stop) {
  ToolCallSplitter splitter(expected);
  std::string content, calls;
  const auto add = [&](const TextAndCalls& parts) {
    content += parts.content;
    for (const ToolCall& call : parts.calls) calls += call.name + "(" + call.arguments + ")";
  };
  for (const std::string_view piece : pieces) add(splitter.feed(piece));
  add(splitter.feed("", Ending{.reason = reason, .stop_id = {}, .stop_text = {}}));
  return content + calls;
}

// Cut at every position, and into bytes.
void expect_split(const ExpectedCalls& expected, const std::string& text, const std::string& wanted,
                  FinishReason reason = FinishReason::stop) {
  const std::string_view all = text;
  std::vector<std::string_view> bytes;
  for (size_t at = 0; at < all.size(); ++at) {
    EXPECT_EQ(split_pieces(expected, {all.substr(0, at), all.substr(at)}, reason), wanted) << at << text;
    bytes.push_back(all.substr(at, 1));
  }
  EXPECT_EQ(split_pieces(expected, bytes, reason), wanted) << text;
}

TEST(ToolCallSplitter, MarksWithinStringsArePartOfThem) {
  for (const CallMarks& marks : {kTaggedCall, kFencedCall}) {
    const std::string open(marks.open), close(marks.close);
    for (const std::string& held : {close, open, open + close, close + open, "\"" + close, close + "\"",
                                    "\\" + close, "\\\"" + close, "{" + close + "}", close + "}}" + close}) {
      const std::string arguments = "{" + json_quoted(held) + ":[" + json_quoted(held) + ",1]}";
      const std::string call = open + R"({"name":"add","arguments":)" + arguments + "}" + close;
      for (const bool required : {false, true}) {
        const ExpectedCalls expected{.names = {"add"}, .required = required, .marks = marks};
        const std::string one = "add(" + arguments + ")";
        expect_split(expected, call + "\n" + call, one + one);
        const std::string cut = call.substr(0, call.size() - close.size() - 4);  // within the list
        expect_split(expected, cut, "add(" + arguments.substr(0, arguments.size() - 3) + ")",
                     FinishReason::length);
      }
    }
  }
}

TEST(ToolCallSplitter, AStringWithoutEndHidesNoCallBehindIt) {
  for (const FinishReason reason : {FinishReason::stop, FinishReason::length}) {
    for (const std::string broken : {R"(<tool_call>say "hi</tool_call>)", R"(<tool_call>\"</tool_call>)",
                                     R"(<tool_call>{"name":"sub","arguments":{"x":"</tool_call>)"}) {
      expect_split({.names = {"add"}}, broken + kCall, broken + R"(add({"x":1}))", reason);
      expect_split({.names = {"add"}}, broken + kCall + broken + kCall,
                   broken + broken + R"(add({"x":1})add({"x":1}))", reason);
    }
  }
}

// An answer of the splitter as one line: text, then NAME(ARGUMENTS), with ... where the end is missing.
std::string split_at_end(const ExpectedCalls& expected, const std::string& text, FinishReason reason) {
  ToolCallSplitter splitter(expected);
  const TextAndCalls parts = splitter.feed(text, Ending{.reason = reason, .stop_id = {}, .stop_text = {}});
  std::string line = parts.content;
  for (const ToolCall& call : parts.calls) line += call.name + "(" + call.arguments + ")";
  if (parts.last_is_cut) line += "...";
  EXPECT_EQ(splitter.count(), parts.calls.size() - (parts.last_is_cut ? 1 : 0)) << text;
  return line;
}

TEST(ToolCallSplitter, ACallThatTheEndCutsIsOneAsFarAsItCame) {
  const auto cut = [](const std::string& text) {
    return split_at_end({.names = {"add", "now"}}, text, FinishReason::length);
  };
  EXPECT_EQ(cut(R"(a <tool_call>{"name":"add","arguments":{"x":1)"), R"(a add({"x":1)...)");
  EXPECT_EQ(cut(R"(<tool_call>{ "name" : "add" , "arguments" : { "x")"), R"(add({ "x")...)");
  EXPECT_EQ(cut(R"(<tool_call>{"name":"add","arg)"), "add()...");
  EXPECT_EQ(cut(R"(<tool_call>{"name":"add")"), "add()...");
  // Nothing is missing but the marks.
  EXPECT_EQ(cut(R"(<tool_call>{"name":"add","arguments":{"x":1})"), R"(add({"x":1}))");
  EXPECT_EQ(cut(R"(<tool_call>{"name":"add","arguments":{"x":1}}</tool)"), R"(add({"x":1}))");
  EXPECT_EQ(cut(kCall + R"(<tool_call>{"name":"now","arguments":{)"), R"(add({"x":1})now({)...)");
  // The name is not known yet.
  for (const char* text : {"<tool_call>", "<tool_call>{\"na", "<tool_call>{\"name\":\"ad"}) {
    EXPECT_EQ(cut(std::string("a ") + text), "a ") << text;
  }
  // No calls.
  for (const char* text : {"a <tool_ca", "<tool_call>hm", R"(<tool_call>{"name":"sub","arguments":{)",
                           R"(<tool_call>{"name":"add","arguments":[1,)", R"(<tool_call>{"x":"add")",
                           R"(<tool_call>{"name":"add","arguments":{x:1}}</tool)"}) {
    EXPECT_EQ(cut(text), text);
  }
}

TEST(ToolCallSplitter, WhatEndsByItselfIsTextUnlessACallIsRequired) {
  const std::string begun = R"(<tool_call>{"name":"add","arguments":{"x":)";
  EXPECT_EQ(split_at_end({.names = {"add"}}, begun, FinishReason::stop), begun);
  EXPECT_EQ(split_at_end({.names = {"add"}, .required = true}, begun, FinishReason::stop),
            R"(add({"x":)...)");
  EXPECT_EQ(split_at_end({.names = {"add"}, .required = true}, "<tool_", FinishReason::length), "");
}

TEST(ToolCallSplitter, OneCallIsEnoughWhereMoreAreNotWanted) {
  const std::string second = R"(<tool_call>{"name":"add","arguments":{"x")";
  EXPECT_EQ(split_at_end({.names = {"add"}, .several = false}, kCall + second, FinishReason::length),
            R"(add({"x":1}))");
}

TEST(ToolCallSplitter, ACallsNumbersAndDepthAreWhateverAGrammarLetsThrough) {
  const auto call = [](const std::string& value) {
    return R"(<tool_call>{"name":"add", "arguments":{"x":)" + value + "}}</tool_call>";
  };
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  for (const std::string& value :
       {std::string("18446744073709551616"), std::string("-9313513031475629457791"),
        "[1,2e3," + std::string(400, '9') + "]", deep}) {
    EXPECT_EQ(split_pieces({.names = {"add"}}, {call(value)}), "add({\"x\":" + value + "})");
    EXPECT_EQ(read_json_prefix("{\"x\":" + value + "}").completed, "{\"x\":" + value + "}");
  }
  EXPECT_EQ(split_pieces({.names = {"add"}}, {call("1.2.3")}), call("1.2.3"));
}

TEST(ToolCallSplitter, KnowsFencedCalls) {
  const ExpectedCalls fenced{.names = {"add"}, .marks = kFencedCall};
  EXPECT_EQ(split_at_end(fenced, "**Tool Call:**\n```json\n{\"name\":\"add\",\"arguments\":{\"x\":1}}\n",
                         FinishReason::length),
            R"(add({"x":1}))");
}

// An engine that runs into max_tokens within the arguments.
ServerRig::Play cut_call(std::string text = R"(<tool_call>{"name":"add","arguments":{"x":1,"y":2)") {
  return [text](const Ask&) {
    return Script{.pieces = {text.substr(0, 15), text.substr(15)}, .reason = FinishReason::length};
  };
}

const char* const kChoices[] = {R"("tool_choice":"required",)", R"("tool_choice":"auto",)",
                                R"("tool_choice":{"type":"function","function":{"name":"add"}},)"};

TEST(CutCalls, OfChatsHaveTheReasonLength) {
  for (const std::string choice : kChoices) {
    ServerRig rig({}, cut_call());
    const Reply reply = rig.post("/v1/chat/completions", chat(choice + kTools));
    EXPECT_THAT(reply.body, HasSubstr(R"("message":{"role":"assistant","content":null,)")) << choice;
    EXPECT_THAT(reply.body, HasSubstr(R"("function":{"name":"add","arguments":"{\"x\":1,\"y\":2"}}])"));
    EXPECT_THAT(reply.body, HasSubstr(R"("finish_reason":"length")"));
  }
}

TEST(CutCalls, OfStreamedChatsAreDeltas) {
  for (const std::string choice : kChoices) {
    ServerRig rig({}, cut_call());
    const auto events =
        events_of(rig.post("/v1/chat/completions", chat(choice + R"("stream":true,)" + kTools)).body);
    ASSERT_EQ(events.size(), 4u) << choice;
    EXPECT_THAT(events[1], HasSubstr(R"("function":{"name":"add","arguments":""}}])"));
    EXPECT_THAT(events[2], HasSubstr(R"([{"index":0,"function":{"arguments":"{\"x\":1,\"y\":2"}}])"));
    EXPECT_THAT(events[3], HasSubstr(R"("delta":{},"logprobs":null,"finish_reason":"length")"));
  }
}

TEST(CutCalls, WithoutANameAreNothing) {
  ServerRig rig({}, cut_call(R"(<tool_call>{"name":)"));
  const std::string body = rig.post("/v1/chat/completions", chat(kChoices[0] + std::string(kTools))).body;
  EXPECT_THAT(body, HasSubstr(R"("content":"","refusal":null},"logprobs":null,"finish_reason":"length")"));
}

constexpr const char* kMessage =
    R"({"max_tokens":8,"messages":[{"role":"user","content":"hi"}],"tool_choice":{"type":"any"},)"
    R"("tools":[{"name":"add","input_schema":{"type":"object"}}])";

// `input` is an object: what is whole of it.
TEST(CutCalls, OfMessagesAreBlocks) {
  ServerRig rig({}, cut_call());
  const std::string whole = rig.post("/v1/messages", std::string(kMessage) + "}").body;
  EXPECT_THAT(whole, HasSubstr(R"("content":[{"type":"tool_use","id":"toolu_)"));
  EXPECT_THAT(whole, HasSubstr(R"("name":"add","input":{"x":1}}],"stop_reason":"max_tokens")"));
  const std::string stream = rig.post("/v1/messages", std::string(kMessage) + R"(,"stream":true})").body;
  EXPECT_THAT(stream, HasSubstr(R"("name":"add","input":{}}})"));
  EXPECT_THAT(stream, HasSubstr(R"("delta":{"type":"input_json_delta","partial_json":"{\"x\":1,\"y\":2"}})"));
  EXPECT_THAT(stream, HasSubstr(R"({"type":"content_block_stop","index":0})"));
  EXPECT_THAT(stream, HasSubstr(R"("stop_reason":"max_tokens")"));
}

TEST(CutCalls, OfResponsesAreIncompleteItems) {
  ServerRig rig({}, cut_call(kCall + R"(<tool_call>{"name":"add","arguments":{"x":2)"));
  const std::string request =
      R"({"input":"hi","tool_choice":"required","tools":[{"type":"function","name":"add"}])";
  const std::string whole = rig.post("/v1/responses", request + "}").body;
  EXPECT_THAT(whole, HasSubstr(R"("status":"incomplete","error":null,"incomplete_details":)"
                               R"({"reason":"max_output_tokens"})"));
  const auto answer = parse_json(whole);
  const JsonValue::Array& output = answer->find("output")->as_array();
  ASSERT_EQ(output.size(), 2u) << whole;
  EXPECT_EQ(output[0].find("status")->as_string(), "completed");
  EXPECT_EQ(output[1].find("type")->as_string(), "function_call");
  EXPECT_EQ(output[1].find("status")->as_string(), "incomplete");
  EXPECT_EQ(output[1].find("arguments")->as_string(), R"({"x":2)");
  const auto events = events_of(rig.post("/v1/responses", request + R"(,"stream":true})").body);
  const size_t count = events.size();
  ASSERT_GE(count, 5u);
  EXPECT_THAT(events[count - 5], HasSubstr(R"("type":"response.output_item.added")"));
  EXPECT_THAT(events[count - 4], HasSubstr(R"("delta":"{\"x\":2")"));
  EXPECT_THAT(events[count - 3], HasSubstr(R"("type":"response.function_call_arguments.done")"));
  EXPECT_THAT(events[count - 2], HasSubstr(R"("type":"function_call","status":"incomplete")"));
  EXPECT_THAT(events[count - 1], HasSubstr(R"("type":"response.incomplete")"));
}

// Its clients call what they are given without looking at the reason.
TEST(CutCalls, OfOllamaAreLeftOut) {
  ServerRig rig({}, cut_call());
  for (const std::string stream : {"true", "false"}) {
    const std::string body = rig.post("/api/chat", chat(R"("stream":)" + stream + "," + kTools)).body;
    EXPECT_THAT(body, Not(HasSubstr("tool_call")));
    EXPECT_THAT(body, HasSubstr(R"("content":""},"done":true,"done_reason":"length")"));
  }
}

}  // namespace
}  // namespace fulmar::testing
