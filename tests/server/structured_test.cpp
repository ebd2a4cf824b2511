// Constrained answers and stored responses at the HTTP boundary.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>

#include "server/generate/answer_rules.h"
#include "server/responses/response_store.h"
#include "server/tool_requests.h"

namespace fulmar::testing {
namespace {

TEST(ResponseFormat, SchemaMasksTheAnswer) {
  ServerRig rig({}, obeying(R"({"name":"Ada","age":36})"));
  const Reply reply = rig.post(
      "/v1/chat/completions",
      chat(R"("response_format":{"type":"json_schema","json_schema":{"name":"p","strict":true,"schema":)"
           R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},)"
           R"("required":["name","age"]}}})"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.body.find(R"("content":"{\"name\":\"Ada\",\"age\":36}")"), std::string::npos) << reply.body;
}

TEST(ResponseFormat, EveryRowHasAMaskOfItsOwn) {
  ServerRig rig({}, obeying("{}"));
  EXPECT_EQ(
      rig.post("/v1/chat/completions", chat(R"("response_format":{"type":"json_object"},"n":2)")).status,
      200);
  const auto asks = rig.engine.asks();
  ASSERT_EQ(asks.size(), 2u);
  EXPECT_NE(asks[0].mask, asks[1].mask);
}

TEST(ResponseFormat, RefusesByName) {
  const ServerRig rig;
  const auto refusal = [&](const std::string& more) {
    const Reply reply = rig.post("/v1/chat/completions", chat(more));
    EXPECT_EQ(reply.status, 400) << more;
    return reply.body;
  };
  EXPECT_NE(
      refusal(
          R"("response_format":{"type":"json_schema","json_schema":{"strict":true,"schema":{"uniqueItems":true}}})")
          .find("'uniqueItems'"),
      std::string::npos);
  EXPECT_NE(refusal(std::string(R"("tool_choice":{"type":"function","function":{"name":"sub"}},)") + kTools)
                .find("'sub'"),
            std::string::npos);
  EXPECT_NE(refusal(R"("tools":[{"type":"function","function":{"name":"a b"}}])").find("a b"),
            std::string::npos);
  EXPECT_NE(refusal(R"("functions":[{"name":"a"}])").find("'tools'"), std::string::npos);
}

TEST(ResponseFormat, BesideToolsItIsTheAnswerOrACall) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false})";
  const std::string asked = R"("response_format":{"type":"json_schema","json_schema":{"name":"p","schema":)" +
                            schema + "}}," + R"("parallel_tool_calls":false,)" + kTools;
  ServerRig answers({}, obeying(R"({"a":1})"));
  EXPECT_NE(answers.post("/v1/chat/completions", chat(asked)).body.find(R"("content":"{\"a\":1}")"),
            std::string::npos);
  ServerRig calls({}, obeying(kCall));
  const Reply called = calls.post("/v1/chat/completions", chat(asked));
  EXPECT_NE(called.body.find(R"("finish_reason":"tool_calls")"), std::string::npos) << called.body;
  const std::string format =
      R"({"input":"hi","parallel_tool_calls":false,"text":{"format":{"type":"json_schema","name":"p","schema":)" +
      schema + R"(}},"tools":[{"type":"function","name":"add","parameters":{"type":"object"}}]})";
  EXPECT_NE(calls.post("/v1/responses", format).body.find(R"("type":"function_call")"), std::string::npos);
  EXPECT_NE(answers.post("/v1/responses", format).body.find(R"("format":{"type":"json_schema"})"),
            std::string::npos);
  // Neither prose nor another object.
  for (const char* wrong : {"Hello", R"({"b":1})"}) {
    ServerRig rig({}, [wrong](const Ask& ask) {
      EXPECT_TRUE(ask.mask);
      for (const char* at = wrong; *at; ++at) {
        const size_t id = static_cast<unsigned char>(*at) + 1u;
        const auto allowed = ask.mask->allowed();
        if (id / 64 >= allowed.size() || !(allowed[id / 64] >> (id % 64) & 1))
          return Script{.pieces = {"refused"}};
        ask.mask->accept(static_cast<int32_t>(id));
      }
      return Script{.pieces = {"taken"}};
    });
    EXPECT_NE(rig.post("/v1/chat/completions", chat(asked)).body.find("refused"), std::string::npos) << wrong;
  }
  ServerRig required({}, obeying(kCall));
  EXPECT_EQ(required.post("/v1/chat/completions", chat(asked + R"(,"tool_choice":"required")")).status, 200);
}

// A keyword of a strict schema is kept or refused by its name; none is passed over in silence.
TEST(ResponseFormat, RefusesSchemaKeywordsItCannotKeep) {
  const ServerRig rig;
  const std::pair<const char*, const char*> schemas[] = {
      {"pattern", R"({"type":"string","pattern":"(a)\\1"})"},
      {"uniqueItems", R"({"type":"array","uniqueItems":true})"},
      {"multipleOf", R"({"type":"number","multipleOf":1e-30})"},
      {"$ref", R"({"$ref":"http://example.com/other"})"}};
  for (const auto& [keyword, schema] : schemas) {
    const Reply reply = rig.post(
        "/v1/chat/completions",
        chat(
            R"("response_format":{"type":"json_schema","json_schema":{"strict":true,"schema":{"type":"object",)"
            R"("properties":{"a":)" +
            std::string(schema) + "}}}}"));
    EXPECT_EQ(reply.status, 400) << keyword;
    EXPECT_NE(reply.body.find(std::string("'") + keyword + "' at '#/properties/a'"), std::string::npos)
        << reply.body;
    EXPECT_NE(reply.body.find(R"("code":"unsupported_parameter")"), std::string::npos) << reply.body;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

// Behind a schema that takes long, or is refused for its size, others are served.
TEST(ResponseFormat, HostileSchemasAreRefusedByTheirLimit) {
  std::string members;
  std::string names;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}) {
    members += std::string(members.empty() ? "" : ",") + "\"" + name + R"(":{"$ref":"#/$defs/n"})";
    names += std::string(names.empty() ? "" : ",") + "\"" + name + "\"";
  }
  const std::string object =
      R"({"type":"object","properties":{)" + members + R"(},"required":[)" + names + "]}";
  ServerRig rig;
  const auto refusal = [&](const std::string& schema) {
    const Reply reply =
        rig.post("/v1/chat/completions",
                 chat(R"("response_format":{"type":"json_schema","json_schema":{"strict":true,"schema":)" +
                      schema + "}}"));
    EXPECT_EQ(reply.status, 400);
    return reply.body;
  };
  EXPECT_NE(refusal(R"({"oneOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/m"}],"$defs":{"n":)" + object +
                    R"(,"m":)" + object + "}}")
                .find("nothing ever ends"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"type":"string","pattern":"a.{20}$"})").find("at most 16384"), std::string::npos);
  EXPECT_TRUE(rig.engine.asks().empty());
  EXPECT_EQ(rig.post("/v1/chat/completions", chat("\"max_tokens\":1")).status, 200);
}

// Does something else before it encodes.
class InterruptedTokenizer : public SmallTokenizer {
 public:
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    if (interrupt) interrupt();
    SmallTokenizer::encode(text, out);
  }
  std::function<void()> interrupt;
};

// The only thread of connections answers others while a request with a constraint is prepared.
TEST(ResponseFormat, SchemasAreCompiledApartFromConnections) {
  InterruptedTokenizer tokenizer;
  ServerOptions options;
  options.io_threads = 1;
  ServerRig rig(options, nullptr, [&](ServedModel& model) { model.tokenizer = &tokenizer; });
  std::atomic<int> answered{0};
  tokenizer.interrupt = [&] { answered += rig.get("/v1/models").status == 200 ? 1 : 0; };
  const std::pair<const char*, std::string> kForms[] = {
      {"/v1/chat/completions", chat(R"("response_format":{"type":"json_object"})")},
      {"/v1/chat/completions", chat(R"("response\u005fformat":{"type":"json_object"})")},
      {"/v1/chat/completions", chat(R"("tools":[{"type":"function","function":{"name":"f"}}])")},
      {"/v1/responses", R"({"input":"x","text":{"format":{"type":"json_object"}}})"},
      {"/v1/completions", R"({"prompt":"x","guided_regex":"a"})"},
      {"/completion", R"({"prompt":"x","json_schema":{"type":"null"}})"},
      {"/api/chat", R"({"messages":[{"role":"user","content":"x"}],"format":"json","stream":false})"},
  };
  for (const auto& [path, body] : kForms) {
    const int before = answered;
    const Reply reply = rig.post(path, body);
    EXPECT_EQ(reply.status, 200) << path << reply.body;
    EXPECT_GT(answered, before) << path << " " << body;
  }
}

TEST(Responses, AreStoredContinuedAndDeleted) {
  ServerRig rig;
  const Reply first = rig.post("/v1/responses", R"({"input":"hi","instructions":"Be brief."})");
  ASSERT_EQ(first.status, 200) << first.body;
  const std::string id = parse_json(first.body)->find("id")->as_string();
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "System: Be brief.\n\nUser: hi\n\nAssistant:");
  EXPECT_EQ(rig.last_ask().state.write_session, "resp:" + id);
  EXPECT_EQ(rig.get("/v1/responses/" + id).body, first.body);

  const Reply second =
      rig.post("/v1/responses", R"({"input":[{"role":"user","content":[{"type":"input_text","text":"on"}]}],)"
                                R"("previous_response_id":")" +
                                    id + "\"}");
  ASSERT_EQ(second.status, 200) << second.body;
  EXPECT_EQ(rig.last_ask().state.read_session, "resp:" + id);
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().state.continuing), "\n\nUser: on\n\nAssistant:");

  EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + id).body,
            R"({"id":")" + id + R"(","object":"response","deleted":true})");
  EXPECT_FALSE(*rig.engine.has_session({}, "resp:" + id));
  EXPECT_EQ(rig.get("/v1/responses/" + id).status, 404);
  EXPECT_EQ(rig.post("/v1/responses", R"({"input":"x","previous_response_id":")" + id + "\"}").status, 404);
}

TEST(Responses, StreamEndsWithTheWholeAnswer) {
  ServerRig rig;
  const Reply reply = rig.post("/v1/responses", R"({"input":"hi","stream":true,"store":false})");
  const auto events = events_of(reply.body);
  std::string text;
  std::vector<std::string> types;
  for (const std::string& event : events) {
    const auto value = parse_json(event);
    EXPECT_EQ(value->find("sequence_number")->as_int64(), static_cast<int64_t>(types.size()));
    types.push_back(value->find("type")->as_string());
    if (types.back() == "response.output_text.delta") text += value->find("delta")->as_string();
  }
  EXPECT_EQ(text, "Hello world");
  EXPECT_EQ(types.front(), "response.created");
  EXPECT_EQ(types.back(), "response.completed");
  EXPECT_EQ(rig.last_ask().state.write_session, "");
}

TEST(Responses, RefuseWhatTheyCannotDo) {
  ServerRig rig;
  for (const std::string body :
       {R"({})", R"({"input":7})", R"({"input":[{"type":"function_call_output"}]})",
        R"({"input":"x","tools":[{"type":"web_search"}],"tool_choice":"required"})",
        R"({"input":"x","text":{"format":{"type":"x"}}})", R"({"input":"x","conversation":"c"})",
        R"({"input":[{"type":"function_call_output","call_id":"c","output":"x"}]})",
        R"({"input":[{"type":"function_call","call_id":"c"}]})",
        R"({"input":"x","tools":[{"type":"function"}]})", R"({"input":"x","metadata":{"a":1}})",
        R"({"input":"x","service_tier":"gold"})", R"({"input":"x","max_tool_calls":3})"}) {
    EXPECT_EQ(rig.post("/v1/responses", body).status, 400) << body;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

// The `type` of each event.
std::vector<std::string> types_of(const std::vector<std::string>& events) {
  std::vector<std::string> types;
  for (const std::string& event : events) types.push_back(parse_json(event)->find("type")->as_string());
  return types;
}

TEST(Responses, ThinkingAndCallsAreItemsOfTheirOwn) {
  ServerRig rig({}, [](const Ask&) {
    return Script{.pieces = {">", "hm", "</think>", "\n\nI ", "ask.<tool_", R"(call>{"name":"add","argu)",
                             R"(ments":{"x":1}}</tool_call>)"},
                  .stop_id = 0};
  });
  const std::string body =
      R"({"input":"hi","reasoning":{"effort":"high"},"tools":[{"type":"function","name":"add","strict":true,)"
      R"("parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}])";
  const Reply whole = rig.post("/v1/responses", body + "}");
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_NE(
      rig.tokenizer.decode(rig.last_ask().prompt)
          .find(R"({"name":"add","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}})"),
      std::string::npos);
  const auto answer = parse_json(whole.body);
  const JsonValue::Array& output = answer->find("output")->as_array();
  ASSERT_EQ(output.size(), 3u) << whole.body;
  EXPECT_EQ(output[0].find("content")->as_array()[0].find("text")->as_string(), "hm");
  EXPECT_EQ(output[1].find("content")->as_array()[0].find("text")->as_string(), "I ask.");
  EXPECT_EQ(output[2].find("name")->as_string(), "add");
  EXPECT_EQ(output[2].find("arguments")->as_string(), R"({"x":1})");
  EXPECT_NE(whole.body.find(R"("output_tokens_details":{"reasoning_tokens":3})"), std::string::npos)
      << whole.body;

  // The call is answered; what the state knows of functions is not said again.
  const std::string id = answer->find("id")->as_string(), call = output[2].find("call_id")->as_string();
  const std::string next = body.substr(0, body.find(R"("input":"hi")")) +
                           R"("input":[{"type":"function_call_output","call_id":")" + call +
                           R"(","output":"2"}],"previous_response_id":")" + id + "\"" +
                           body.substr(body.find(R"(,"tools")")) + "}";
  EXPECT_EQ(rig.post("/v1/responses", next).status, 200);
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().state.continuing), "\n\nTool: 2\n\nAssistant:");

  const auto events = events_of(rig.post("/v1/responses", body + R"(,"stream":true})").body);
  const std::string r = "response.";
  EXPECT_EQ(types_of(events), (std::vector<std::string>{r + "created",
                                                        r + "in_progress",
                                                        r + "output_item.added",
                                                        r + "content_part.added",
                                                        r + "reasoning_text.delta",
                                                        r + "reasoning_text.done",
                                                        r + "content_part.done",
                                                        r + "output_item.done",
                                                        r + "output_item.added",
                                                        r + "content_part.added",
                                                        r + "output_text.delta",
                                                        r + "output_text.delta",
                                                        r + "output_text.done",
                                                        r + "content_part.done",
                                                        r + "output_item.done",
                                                        r + "output_item.added",
                                                        r + "function_call_arguments.delta",
                                                        r + "function_call_arguments.done",
                                                        r + "output_item.done",
                                                        r + "completed"}));
}

TEST(AnswerConstraints, StatesOfOneModelShareTheirs) {
  ServerRig rig;
  rig.models.add_state("tiny-rwkv7", {.name = "S"});
  AnswerConstraints constraints;
  AnswerRules rules;
  rules.json_object = true;
  const auto find = [&](const char* name) {
    return constraints.find("a", rig.models.find({}, name, true), AnswerStart::plain, rules)->constraint;
  };
  const auto plain = find("tiny-rwkv7");
  EXPECT_EQ(find("tiny-rwkv7 S"), plain);
  EXPECT_EQ(find("tiny-rwkv7 S"), plain) << "each look-up of a state makes facts of its own";
}

TEST(ResponseStore, WhatIsStoredOutlivesTheServer) {
  const std::string path =
      std::string(::testing::TempDir()) + "/fulmar_responses_" + std::to_string(::getpid()) + ".db";
  ServerOptions options;
  options.responses_db = path;
  std::string id;
  {
    ServerRig rig(options);
    const Reply created = rig.post("/v1/responses", R"({"input":"x"})");
    ASSERT_EQ(created.status, 200) << created.body;
    id = parse_json(created.body)->find("id")->as_string();
    EXPECT_EQ(rig.get("/v1/responses/" + id).body, created.body);
  }
  {
    ServerRig rig(options);
    EXPECT_EQ(parse_json(rig.get("/v1/responses/" + id).body)->find("id")->as_string(), id);
    EXPECT_EQ(rig.send("DELETE", "/v1/responses/" + id).status, 200);
  }
  EXPECT_EQ(ServerRig(options).get("/v1/responses/" + id).status, 404);
  for (const char* ending : {"", "-wal"}) std::filesystem::remove(path + ending);
}

TEST(Responses, AStreamThatFailsEndsInAnEventOfItsKind) {
  ServerRig rig({}, [](const Ask&) {
    return Script{
        .pieces = {"a"}, .reason = FinishReason::failed, .error = Error{ErrorKind::resource, "no memory"}};
  });
  const Reply reply = rig.post("/v1/responses", R"({"input":"x","stream":true})");
  const auto events = events_of(reply.body);
  ASSERT_FALSE(events.empty());
  const auto last = *parse_json(events.back());
  ASSERT_TRUE(last.find("type")) << events.back();
  EXPECT_EQ(last.find("type")->as_string(), "error");
  EXPECT_EQ(last.find("message")->as_string(), "no memory");
  EXPECT_EQ(last.find("sequence_number")->as_int64(), static_cast<int64_t>(events.size()) - 1);
}

}  // namespace
}  // namespace fulmar::testing
