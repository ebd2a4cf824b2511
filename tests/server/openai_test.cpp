// The openai family at the HTTP boundary: exact bytes for recorded requests.
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

const std::string kHead = R"("created":1,"model":"tiny-rwkv7",)";

TEST(OpenaiModels, ListsAndShowsOne) {
  const ServerRig rig;
  const std::string entry =
      R"({"id":"tiny-rwkv7","object":"model","created":1700000000,"owned_by":"fulmar"})";
  for (const std::string prefix : {"/v1", "/openai/v1"}) {
    EXPECT_EQ(rig.get(prefix + "/models").body, R"({"object":"list","data":[)" + entry + "]}");
    EXPECT_EQ(rig.get(prefix + "/models/").status, 200);
    EXPECT_EQ(rig.get(prefix + "/models/tiny-rwkv7").body, entry);
    const Reply unknown = rig.get(prefix + "/models/other");
    EXPECT_EQ(unknown.status, 404);
    EXPECT_EQ(
        unknown.body,
        R"({"error":{"message":"The model 'other' does not exist","type":"invalid_request_error","param":"model","code":"model_not_found"}})");
  }
  EXPECT_EQ(rig.get("/models").body, R"([{"object":"models","id":"tiny-rwkv7"}])");
}

TEST(OpenaiChat, WholeAnswer) {
  ServerRig rig;
  const Reply reply = rig.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.get("Content-Type"), "application/json");
  EXPECT_TRUE(reply.headers.get("X-Request-Id").starts_with("chatcmpl-"));
  EXPECT_EQ(
      steady(reply.body),
      R"({"id":"chatcmpl-x","object":"chat.completion",)" + kHead +
          R"("choices":[{"index":0,"message":{"role":"assistant","content":"Hello world","refusal":null},)"
          R"("logprobs":null,"finish_reason":"stop","stop_reason":0}],)"
          R"("usage":{"prompt_tokens":20,"completion_tokens":4,"total_tokens":24}})");
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: hi\n\nAssistant:");
}

// Clients take an empty text for an answer beside the call.
TEST(OpenaiChat, AStreamWithFunctionsOpensWithoutContent) {
  const ServerRig rig;
  const Reply reply = rig.post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"tools":[{"type":"function","function":)"
      R"({"name":"f","parameters":{"type":"object"}}}]})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_NE(events_of(reply.body).front().find(R"("delta":{"role":"assistant","content":null})"),
            std::string::npos);
}

TEST(OpenaiChat, LeadingBlanksOfAnswersGoOnBothPaths) {
  const ServerRig rig({}, [](const Ask&) { return Script{.pieces = {" ", " Hi"}, .stop_id = 0}; });
  for (const std::string path : {"/v1/chat/completions", "/openai/v1/chat/completions"}) {
    const Reply reply = rig.post(path, R"({"messages":[{"role":"user","content":"x"}]})");
    EXPECT_NE(reply.body.find(R"("content":"Hi")"), std::string::npos) << path << reply.body;
  }
}

TEST(OpenaiChat, ErrorsNameTheFieldThatIsMissing) {
  const ServerRig rig;
  EXPECT_NE(rig.post("/v1/chat/completions", "{}").body.find(R"("param":"messages")"), std::string::npos);
  EXPECT_NE(rig.post("/openai/v1/chat/completions", "{}").body.find(R"("param":"messages")"),
            std::string::npos);
  EXPECT_NE(rig.post("/v1/completions", "{}").body.find(R"("param":"prompt")"), std::string::npos);
}

TEST(OpenaiChat, Stream) {
  const ServerRig rig;
  const Reply reply =
      rig.post("/v1/chat/completions",
               R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"model":"mine"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.get("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(reply.headers.get("Cache-Control"), "no-cache");
  EXPECT_EQ(reply.headers.get("X-Accel-Buffering"), "no");
  EXPECT_EQ(reply.headers.get("Access-Control-Allow-Origin"), "*");
  const std::string head =
      R"({"id":"chatcmpl-x","object":"chat.completion.chunk","created":1,"model":"mine","choices":[{"index":0,"delta":)";
  const std::string tail = R"(,"logprobs":null,"finish_reason":null}]})";
  EXPECT_EQ(
      events_of(steady(reply.body)),
      (std::vector<std::string>{head + R"({"role":"assistant","content":""})" + tail,
                                head + R"({"content":"He"})" + tail, head + R"({"content":"llo"})" + tail,
                                head + R"({"content":" wor"})" + tail, head + R"({"content":"ld"})" + tail,
                                head + R"({},"logprobs":null,"finish_reason":"stop","stop_reason":0}]})"}));
}

TEST(OpenaiChat, UsageEventOnlyOnRequest) {
  const ServerRig rig;
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"n":2,"seed":7)";
  const auto with =
      events_of(rig.post("/v1/chat/completions", body + R"(,"stream_options":{"include_usage":true}})").body);
  ASSERT_GE(with.size(), 2u);
  EXPECT_NE(with.back().find(
                R"("choices":[],"usage":{"prompt_tokens":20,"completion_tokens":8,"total_tokens":28}})"),
            std::string::npos)
      << with.back();
  for (size_t i = 0; i + 1 < with.size(); ++i)
    EXPECT_TRUE(with[i].ends_with(R"(}],"usage":null})")) << with[i];
  for (const std::string& event : events_of(rig.post("/v1/chat/completions", body + "}").body)) {
    EXPECT_EQ(event.find("usage"), std::string::npos) << event;
  }
}

TEST(OpenaiChat, SeveralChoicesShareThePromptAndStepTheSeed) {
  ServerRig rig;
  rig.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"n":3,"seed":7})");
  const std::vector<Ask> asks = rig.engine.asks();
  ASSERT_EQ(asks.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(asks[i].sampling.seed, 7 + i);
    EXPECT_EQ(asks[i].index, static_cast<int32_t>(i));
    EXPECT_EQ(asks[i].prompt, asks[0].prompt);
    EXPECT_EQ(asks[i].request_id, asks[0].request_id);
  }
}

TEST(OpenaiChat, DefaultsAndStops) {
  ServerRig rig;
  rig.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})");
  Ask ask = rig.last_ask();
  EXPECT_EQ(ask.max_tokens, 4096);
  EXPECT_EQ(ask.sampling.temperature, 1.0f);
  EXPECT_EQ(ask.sampling.top_k, 20);
  EXPECT_EQ(ask.sampling.top_p, 0.6f);
  EXPECT_EQ(ask.sampling.presence, 1.0f);
  EXPECT_EQ(ask.sampling.frequency, 0.1f);
  EXPECT_EQ(ask.sampling.decay, 0.996f);
  EXPECT_EQ(ask.stop.ids, std::vector<int32_t>{0});
  EXPECT_EQ(ask.stop.texts, (std::vector<std::string>{"\n\nUser:", "\nUser:"}));

  rig.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"ignore_eos":true})");
  ask = rig.last_ask();
  EXPECT_TRUE(ask.stop.ids.empty());
  EXPECT_TRUE(ask.stop.texts.empty());
  EXPECT_EQ(ask.sampling.banned, std::vector<int32_t>{0});
}

TEST(OpenaiChat, ThinkingIsSplitUnlessAskedNotTo) {
  ServerRig rig({}, [](const Ask&) {
    return Script{.pieces = {">\nfirst ", "this", "</thi", "nk>\n\n", "the answer"}, .stop_id = 0};
  });
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"think":true)";
  const Reply split = rig.post("/v1/chat/completions", body + "}");
  EXPECT_NE(split.body.find(R"("reasoning_content":"first this","content":"the answer")"), std::string::npos)
      << split.body;
  EXPECT_NE(split.body.find(R"("completion_tokens_details":{"reasoning_tokens":4})"), std::string::npos)
      << split.body;
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: hi\n\nAssistant: <think");
  ASSERT_EQ(rig.last_ask().banned_at.size(), 2u);
  EXPECT_EQ(rig.last_ask().banned_at[0].position, 1);
  EXPECT_EQ(rig.last_ask().banned_at[0].ids, (std::vector<int32_t>{111, 754}));

  const Reply whole = rig.post("/v1/chat/completions", body + R"(,"reasoning_format":"none"})");
  EXPECT_NE(whole.body.find(R"("content":"<think>\nfirst this</think>\n\nthe answer")"), std::string::npos)
      << whole.body;
  EXPECT_EQ(whole.body.find("reasoning_tokens"), std::string::npos) << whole.body;
}

TEST(OpenaiChat, APredictionIsADraft) {
  ServerRig rig;
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"prediction":{"type":"content",)";
  rig.post("/v1/chat/completions", body + R"("content":"as it was"}})");
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prediction), "as it was");
  EXPECT_TRUE(rig.last_ask().speculate);
  rig.post(
      "/v1/chat/completions",
      body +
          R"("content":[{"type":"text","text":"as "},{"type":"text","text":"it is"}]},"speculate":false})");
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prediction), "as it is");
  EXPECT_FALSE(rig.last_ask().speculate);
}

TEST(OpenaiChat, UsageTellsWhatWasDrafted) {
  ServerRig rig({}, [](const Ask&) {
    return Script{.pieces = {"A", "B"}, .stop_id = 0, .accepted = 3, .rejected = 4};
  });
  const std::string wanted =
      R"("completion_tokens_details":{"accepted_prediction_tokens":3,"rejected_prediction_tokens":4})";
  const Reply whole = rig.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_NE(whole.body.find(wanted), std::string::npos) << whole.body;
  const Reply stream =
      rig.post("/v1/completions", R"({"prompt":"x","stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_NE(stream.body.find(wanted), std::string::npos) << stream.body;
}

TEST(OpenaiChat, Logprobs) {
  const ServerRig rig({}, [](const Ask&) { return Script{.pieces = {"A", "B"}, .stop_id = 0}; });
  const Reply reply =
      rig.post("/v1/chat/completions",
               R"({"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":2})");
  EXPECT_NE(
      reply.body.find(
          R"("logprobs":{"content":[{"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":[{"token":"A","logprob":-0.5,"bytes":[65]},{"token":"B","logprob":-1.5,"bytes":[66]}]},)"),
      std::string::npos)
      << reply.body;
}

TEST(OpenaiCompletion, WholeAndStream) {
  ServerRig rig;
  const Reply whole = rig.post("/v1/completions", R"({"prompt":"x","model":"rwkv","max_tokens":3})");
  EXPECT_EQ(
      steady(whole.body),
      R"({"id":"cmpl-x","object":"text_completion","created":1,"model":"rwkv","choices":[{"text":"Hello wor",)"
      R"("index":0,"logprobs":null,"finish_reason":"length"}],)"
      R"("usage":{"prompt_tokens":1,"completion_tokens":3,"total_tokens":4}})");
  const Reply stream = rig.post(
      "/completions", R"({"prompt":"x","stream":true,"max_tokens":2,"temperature":0.0,"best_of":1})");
  const std::string head =
      R"({"id":"cmpl-x","object":"text_completion","created":1,"model":"tiny-rwkv7","choices":[{"text":)";
  EXPECT_EQ(events_of(steady(stream.body)),
            (std::vector<std::string>{head + R"("He","index":0,"logprobs":null,"finish_reason":null}]})",
                                      head + R"("llo","index":0,"logprobs":null,"finish_reason":null}]})",
                                      head + R"("","index":0,"logprobs":null,"finish_reason":"length"}]})"}));
}

TEST(OpenaiCompletion, PromptForms) {
  ServerRig rig;
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":["a","b"],"n":2})").status, 200);
  std::vector<Ask> asks = rig.engine.asks();
  ASSERT_EQ(asks.size(), 4u);
  EXPECT_EQ(asks[1].prompt, std::vector<int32_t>{'a' + 1});
  EXPECT_EQ(asks[2].prompt, std::vector<int32_t>{'b' + 1});
  EXPECT_EQ(asks[2].index, 2);
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":[5,6]})").status, 200);
  EXPECT_EQ(rig.last_ask().prompt, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":[[5,6],[7]]})").status, 200);
  EXPECT_EQ(rig.last_ask().prompt, std::vector<int32_t>{7});
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"a","suffix":"b"})").status, 200);
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt),
            "\u273Fprefix\u273F\u273Fsuffix\u273Fb\u273Fmiddle\u273Fa");
}

TEST(OpenaiCompletion, EchoLogprobsAndBestOf) {
  const ServerRig rig(
      {}, [](const Ask& ask) { return Script{.pieces = {ask.index == 1 ? "B" : "A"}, .stop_id = 0}; });
  const Reply reply =
      rig.post("/v1/completions", R"({"prompt":"xy","echo":true,"logprobs":1,"max_tokens":5})");
  EXPECT_NE(
      reply.body.find(
          R"("text":"xyA","index":0,"logprobs":{"tokens":["A"],"token_logprobs":[-0.5],"top_logprobs":[{"A":-0.5}],"text_offset":[2]})"),
      std::string::npos)
      << reply.body;
  const Reply best = rig.post("/v1/completions", R"({"prompt":"xy","best_of":3,"n":1})");
  EXPECT_NE(best.body.find(R"("choices":[{"text":"A","index":0,"logprobs":null)"), std::string::npos);
  EXPECT_EQ(best.body.find(R"("index":1)"), std::string::npos);
}

TEST(OpenaiDispatch, OnePathThreeInputs) {
  const ServerRig rig;
  EXPECT_NE(rig.post("/v1/chat/completions", R"({"prompt":"x","max_tokens":2})").body.find("text_completion"),
            std::string::npos);
  EXPECT_NE(rig.post("/v1/completions", R"({"messages":[{"role":"user","content":"x"}]})")
                .body.find(R"("object":"chat.completion")"),
            std::string::npos);
  EXPECT_EQ(rig.post("/v1/chat/completions", R"({"messages":[],"prompt":"","contents":["x"]})").status, 200);
  const auto ambiguous = [](const std::string& a, const std::string& b) {
    return R"({"error":{"message":"')" + a + "' and '" + b +
           R"(' cannot be combined; send exactly one of 'messages', 'contents', 'prompt'",)" +
           R"("type":"invalid_request_error","param":")" + b + R"(","code":"ambiguous_input"}})";
  };
  const std::string chat = R"("messages":[{"role":"user","content":"x"}])";
  const std::pair<std::string, std::string> cases[] = {
      {"{" + chat + R"(,"contents":["x"]})", ambiguous("messages", "contents")},
      {"{" + chat + R"(,"contents":["x"],"prompt":"x"})", ambiguous("messages", "contents")},
      {"{" + chat + R"(,"prompt":"x"})", ambiguous("messages", "prompt")},
      {R"({"contents":["x"],"prompt":"x"})", ambiguous("contents", "prompt")},
      {R"({"contents":[]})", R"({"error":"Empty prompts list"})"},
      {"{}",
       R"({"error":{"message":"one of 'messages', 'contents', 'prompt' is required","type":"invalid_request_error","param":"messages","code":"missing_input"}})"},
      {R"({"prompt":""})",
       R"({"error":{"message":"one of 'messages', 'contents', 'prompt' is required","type":"invalid_request_error","param":"messages","code":"missing_input"}})"},
  };
  for (const auto& [body, wanted] : cases) {
    const Reply reply = rig.post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.body, wanted) << body;
  }
}

TEST(OpenaiLightning, ContinuationIsRawAndContentsIsALastTurn) {
  ServerRig rig({}, [](const Ask&) { return Script{.pieces = {" raw"}, .stop_id = 0}; });
  const Reply reply =
      rig.post("/openai/v1/chat/completions",
               R"({"messages":[{"role":"user","content":"a\n\n b"},{"role":"assistant","content":"c"}],)"
               R"("contents":["d"],"model":"other"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.body.find(R"("content":"raw")"), std::string::npos) << reply.body;
  EXPECT_NE(reply.body.find(R"("model":"tiny-rwkv7")"), std::string::npos);
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt),
            "User: a\nb\n\nAssistant: c\n\nUser: d\n\nAssistant:");
}

}  // namespace
}  // namespace fulmar::testing
