// The native batch routes at the HTTP boundary.
#include <set>

#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

// Says which prompt it answers, so that mixed-up rows show.
Script echo(const Ask& ask) {
  std::string prompt;
  for (const int32_t id : ask.prompt) prompt += id == 0 ? '0' : static_cast<char>(id - 1);
  return {.pieces = {"<", prompt, ">", "!"}, .stop_id = 261};
}

TEST(NativeBatch, WholeAnswerInOrder) {
  ServerRig rig({}, echo);
  const Reply reply =
      rig.post("/v1/chat/completions",
               R"({"contents":["A","B"],"max_tokens":3,"stream":false,"stop_tokens":[0,261,24281]})");
  EXPECT_EQ(steady(reply.body),
            R"({"id":"rwkv7-batch","object":"chat.completion","created":1,"model":"rwkv7","choices":[)"
            R"({"index":0,"message":{"role":"assistant","content":"<A>"},"finish_reason":"length"},)"
            R"({"index":1,"message":{"role":"assistant","content":"<B>"},"finish_reason":"length"}],)"
            R"("usage":{"prompt_tokens":2,"completion_tokens":6,"total_tokens":8}})");
  const Ask ask = rig.last_ask();
  EXPECT_EQ(ask.stop.ids, (std::vector<int32_t>{0, 261, 24281}));
  EXPECT_EQ(ask.sampling.top_k, 50);
  EXPECT_EQ(ask.sampling.presence, 2.0f);
  EXPECT_EQ(ask.sampling.frequency, 0.2f);
}

TEST(NativeBatch, StreamGroupsTokensAndAlwaysHasContent) {
  const ServerRig rig({}, echo);
  const Reply reply = rig.post("/v1/chat/completions", R"({"contents":["A"],"stream":true,"chunk_size":3})");
  const std::string head =
      R"({"id":"req-x","object":"chat.completion.chunk","created":1,"model":"rwkv7","choices":[{"index":0,"delta":)";
  EXPECT_EQ(
      events_of(steady(reply.body)),
      (std::vector<std::string>{head + R"({"content":"<A>"}}]})",
                                head + R"({"content":"!"},"finish_reason":"stop","stop_reason":261}]})"}));
}

TEST(NativeBatch, EveryIndexEndsOnce) {
  const ServerRig rig({}, echo);
  std::string body = R"({"stream":true,"max_tokens":4,"contents":[)";
  for (int i = 0; i < 2000; ++i) body += (i ? ",\"p" : "\"p") + std::to_string(i) + "\"";
  const Reply reply = rig.post("/big_batch/completions", body + "]}");
  std::map<int64_t, std::string> texts;
  std::set<int64_t> ended;
  for (const std::string& event : events_of(reply.body)) {
    const auto json = parse_json(event);
    for (const JsonValue& choice : json->find("choices")->as_array()) {
      const int64_t index = choice.find("index")->as_int64();
      EXPECT_FALSE(ended.contains(index));
      texts[index] += choice.find("delta")->find("content")->as_string();
      if (choice.find("finish_reason")) ended.insert(index);
    }
  }
  EXPECT_EQ(ended.size(), 2000u);
  for (const auto& [index, text] : texts) EXPECT_EQ(text, "<p" + std::to_string(index) + ">!");
}

TEST(NativeBatch, RoutesDifferInDefaults) {
  ServerRig rig({}, echo);
  Reply reply = rig.post("/v2/chat/completions", R"({"contents":["A"],"model":"m"})");
  EXPECT_NE(
      reply.body.find(R"("model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"<0A>!")"),
      std::string::npos)
      << reply.body;
  EXPECT_NE(reply.body.find(R"("prompt_tokens":1,)"), std::string::npos)
      << "the padding token does not count";
  EXPECT_EQ(rig.last_ask().prompt, (std::vector<int32_t>{0, 'A' + 1}));
  rig.post("/v2/chat/completions", R"({"contents":["A"],"pad_zero":false})");
  EXPECT_EQ(rig.last_ask().prompt, std::vector<int32_t>{'A' + 1});

  reply = rig.post("/v1/batch/completions", R"({"contents":"A"})");
  EXPECT_TRUE(reply.body.starts_with(R"({"id":"rwkv7-fast-batch","object":"chat.completion",)"))
      << reply.body;

  reply = rig.post("/v3/chat/completions", R"({"contents":["Q","R"],"enable_think":true})");
  EXPECT_TRUE(reply.body.starts_with(R"({"id":"rwkv7-batch-v3",)")) << reply.body;
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: R\n\nAssistant: <think");
  rig.post("/v3/chat/completions", R"({"messages":[{"role":"user","content":"Q"}],"enable_think":true})");
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "User: Q\n\nAssistant: <think");

  reply = rig.post("/FIM/v1/batch-FIM", R"({"prefix":["a"],"suffix":["b"]})");
  EXPECT_TRUE(reply.body.starts_with(R"({"id":"rwkv7-batch","object":"FIM.completion",)")) << reply.body;
  EXPECT_EQ(rig.last_ask().stop.ids, (std::vector<int32_t>{0, 10060}));
}

TEST(NativeBigBatch, NoiseChoosesTheSampler) {
  ServerRig rig({}, echo);
  EXPECT_EQ(rig.post("/big_batch/completions", R"({"contents":["A"],"top_k":1,"temperature":0.5})")
                .headers.get("Content-Type"),
            "text/event-stream; charset=utf-8");
  EXPECT_EQ(rig.last_ask().sampling.noise, NoiseKind::gumbel);
  EXPECT_EQ(rig.last_ask().sampling.temperature, 0.5f);
  EXPECT_EQ(rig.last_ask().sampling.top_k, 0);
  EXPECT_TRUE(rig.post("/big_batch/completions", R"({"contents":["A"],"noise":0,"stream":false})")
                  .body.starts_with(R"({"id":"rwkv7-batch",)"));
  EXPECT_EQ(rig.last_ask().sampling.noise, NoiseKind::uniform);
  EXPECT_EQ(rig.last_ask().sampling.noise_scale, 0.0f);
}

TEST(NativeTranslate, KeepsOrderAndSkipsBlankTexts) {
  ServerRig rig({}, [](const Ask& ask) {
    return Script{.pieces = {" T" + std::to_string(ask.index), "\n"}};
  });
  const Reply reply = rig.post(
      "/translate/v1/batch-translate",
      R"({"source_lang":"en","target_lang":"zh-CN","text_list":["one","  ","two"],"temperature":"ignored"})");
  EXPECT_EQ(
      reply.body,
      R"({"translations":[{"detected_source_lang":"en","text":"T0"},)"
      R"({"detected_source_lang":"en","text":""},{"detected_source_lang":"en","text":"T1"}],"warnings":["not kept on this route: 'temperature'"]})");
  const Ask ask = rig.last_ask();
  EXPECT_EQ(rig.tokenizer.decode(ask.prompt), "English: two\n\nChinese:");
  EXPECT_TRUE(ask.sampling.greedy());
  EXPECT_EQ(ask.stop.texts, std::vector<std::string>{"\n\n"});
  rig.post("/translate/v1/batch-translate",
           R"({"source_lang":"ko","target_lang":"pt-BR","text_list":["x"]})");
  EXPECT_EQ(rig.tokenizer.decode(rig.last_ask().prompt), "Korean: x\n\nPortuguese:");
  EXPECT_EQ(rig.post("/translate/v1/batch-translate", R"({"target_lang":"en","text_list":["мир"]})").body,
            R"({"translations":[{"detected_source_lang":"ru","text":"T0"}]})");
}

TEST(NativeTranslate, AFurtherRoundIsNoPartOfTheAnswer) {
  ServerRig rig({}, [](const Ask&) { return Script{.pieces = {" Eins", "\n\nSpanish:", " dos"}}; });
  EXPECT_EQ(rig.post("/translate/v1/batch-translate",
                     R"({"source_lang":"en","target_lang":"de","text_list":["one","one\n\ntwo"]})")
                .body,
            R"({"translations":[{"detected_source_lang":"en","text":"Eins"},)"
            R"({"detected_source_lang":"en","text":"Eins\n\nSpanish: dos"}]})");
  EXPECT_EQ(rig.last_ask().stop.texts, (std::vector<std::string>{"\n\nEnglish:", "\n\nGerman:"}));
}

TEST(NativeErrors, FixedTexts) {
  const ServerRig rig({}, echo);
  const std::array<std::string, 3> cases[] = {
      {"/v2/chat/completions", "{}", R"({"error":"Empty prompts list"})"},
      {"/v3/chat/completions", "{}", R"({"error":"Empty prompts list"})"},
      {"/v1/batch/completions", R"({"contents":[]})", R"({"error":"Empty prompts list"})"},
      {"/big_batch/completions", "{}", R"({"error":"contents is empty"})"},
      {"/FIM/v1/batch-FIM", R"({"prefix":["a"],"suffix":[]})",
       R"({"error":"prefix and suffix must have the same length"})"},
      {"/FIM/v1/batch-FIM", "{}", R"({"error":"Empty prompts list"})"},
      {"/translate/v1/batch-translate", R"({"text_list":["a"]})", R"({"error":"Missing target_lang"})"},
      {"/translate/v1/batch-translate", R"({"target_lang":"en","text_list":[]})",
       R"({"error":"Empty text_list"})"},
      {"/v1/tokens/count", "{}", R"({"error":"Missing text or messages"})"},
      {"/v2/chat/completions", R"({"contents":[""],"pad_zero":false})",
       R"({"error":"prompt 0 of 1 is empty"})"},
  };
  for (const auto& [path, body, wanted] : cases) {
    const Reply reply = rig.post(path, body);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_EQ(reply.body, wanted) << path;
  }
}

TEST(NativeErrors, TooManyRows) {
  ServerOptions options;
  options.limits.max_request_rows = 2;
  const ServerRig rig(options, echo);
  const Reply reply = rig.post("/v2/chat/completions", R"({"contents":["a","b","c"]})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, R"({"error":"bsz overflow, Max bsz=2","request_bsz":3,"max_bsz":2})");
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(NativeErrors, EngineTrouble) {
  ServerRig rig({}, [](const Ask& ask) {
    return ask.prompt.size() == 1
               ? Script{.reason = FinishReason::failed, .error = Error{ErrorKind::internal, "boom"}}
               : Script{.pieces = {"x"},
                        .reason = FinishReason::failed,
                        .error = Error{ErrorKind::internal, "boom"}};
  });
  Reply reply = rig.post("/v2/chat/completions", R"({"contents":["a"],"pad_zero":false})");
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(reply.body, R"({"error":"boom"})");
  reply = rig.post("/v2/chat/completions", R"({"contents":["ab"],"stream":true,"chunk_size":1})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(events_of(reply.body).back(), R"({"error":"boom"})");
  reply = rig.post("/translate/v1/batch-translate", R"({"target_lang":"en","text_list":["a"]})");
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(reply.body, R"({"translations":[]})");

  rig.engine.refuse(Error{ErrorKind::unavailable, "full"});
  reply = rig.post("/v2/chat/completions", R"({"contents":["a"],"stream":true})");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers.get("Retry-After"), "1");
  EXPECT_EQ(reply.body, R"({"error":"Request queue full"})");

  // What a key has waiting is told to it.
  const std::string share = "Request queue full for this key: 50 of its requests wait";
  rig.engine.refuse(Error{ErrorKind::unavailable, share});
  reply = rig.post("/v2/chat/completions", R"({"contents":["a"]})");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers.get("Retry-After"), "1");
  EXPECT_EQ(reply.body, R"({"error":")" + share + R"("})");
}

}  // namespace
}  // namespace fulmar::testing
