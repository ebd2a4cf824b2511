// What holds on every route: unknown paths, bad bodies, limits.
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

TEST(Routing, UnknownPathAndWrongMethod) {
  const ServerRig rig;
  EXPECT_EQ(
      rig.get("/nowhere").body,
      R"({"error":{"message":"Not Found","type":"invalid_request_error","param":null,"code":"not_found"},"detail":"Not Found"})");
  EXPECT_EQ(rig.get("/nowhere").status, 404);
  const Reply wrong = rig.get("/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.get("Allow"), "POST, OPTIONS");
  EXPECT_NE(wrong.body.find(R"("code":"method_not_allowed"},"detail":"Method Not Allowed")"),
            std::string::npos);
  EXPECT_EQ(rig.post("/v1/models", "{}").headers.get("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(rig.send("OPTIONS", "/nowhere").status, 404);
  EXPECT_EQ(rig.get("/v1/models/").status, 200);
  const Reply head = rig.send("HEAD", "/v1/models");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
}

TEST(Models, UnknownNameIsAnsweredUnlessStrict) {
  EXPECT_EQ(ServerRig().post("/v1/completions", R"({"prompt":"x","model":"api-test"})").status, 200);
  ServerOptions options;
  options.strict_model = true;
  const ServerRig strict(options);
  for (const std::string known : {"tiny-rwkv7", "rwkv7", "rwkv-7", "rwkv", "default", ""}) {
    EXPECT_EQ(strict.post("/v1/completions", R"({"prompt":"x","model":")" + known + "\"}").status, 200)
        << known;
  }
  const Reply unknown = strict.post("/v1/completions", R"({"prompt":"x","model":"api-test"})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find(R"("param":"model","code":"model_not_found")"), std::string::npos);
}

TEST(Models, NoneLoaded) {
  ServerRig rig;
  rig.models.remove("tiny-rwkv7");
  EXPECT_EQ(rig.post("/v2/chat/completions", R"({"contents":["x"]})").body, R"({"error":"No model loaded"})");
  const Reply chat = rig.post("/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(chat.status, 503);
  EXPECT_NE(chat.body.find(R"("type":"unavailable_error","param":null,"code":"model_not_loaded")"),
            std::string::npos);
  EXPECT_EQ(rig.get("/health").status, 503);
  EXPECT_EQ(rig.get("/v1/models").body, R"({"object":"list","data":[]})");
  EXPECT_EQ(rig.get("/models").body, "[]");
  EXPECT_EQ(rig.get("/v1/server/status").status, 200);
}

TEST(BadInput, BrokenBodies) {
  const ServerRig rig;
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  for (const std::string& body :
       {std::string("{"), std::string("[]"), std::string("7"), std::string("{\"prompt\":\"\xff\"}"), deep,
        "{\"prompt\":" + deep + "}", std::string("{\"prompt\":\"x\"} trailing")}) {
    const Reply openai = rig.post("/v1/chat/completions", body);
    EXPECT_EQ(openai.status, 400);
    EXPECT_NE(openai.body.find(R"("message":"Invalid JSON)"), std::string::npos) << openai.body;
    const Reply native = rig.post("/v2/chat/completions", body);
    EXPECT_EQ(native.status, 400);
    EXPECT_TRUE(native.body.starts_with(R"({"error":"Invalid JSON)")) << native.body;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

// Each route in the shape of its own family, whatever its path looks like.
TEST(BadInput, BrokenBodiesInTheRoutesShape) {
  const ServerRig rig;
  for (const std::string path : {"/completion", "/infill", "/apply-template", "/v1/embeddings"}) {
    EXPECT_TRUE(rig.post(path, "{").body.starts_with(R"({"error":{"message":"Invalid JSON)")) << path;
  }
  for (const std::string path : {"/v1/batch/completions", "/big_batch/completions"}) {
    EXPECT_TRUE(rig.post(path, "{").body.starts_with(R"({"error":"Invalid JSON)")) << path;
  }
}

TEST(BadInput, NamesThatWouldForgeATurn) {
  const ServerRig rig;
  const Reply role =
      rig.post("/v1/chat/completions", R"({"messages":[{"role":"x\n\nUser","content":"hi"}]})");
  EXPECT_EQ(role.status, 400);
  EXPECT_NE(role.body.find(R"("param":"messages")"), std::string::npos) << role.body;
  EXPECT_NE(role.body.find("a message's role is"), std::string::npos) << role.body;
  const Reply call = rig.post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"a b","arguments":"{}"}}]}]})");
  EXPECT_EQ(call.status, 400);
  EXPECT_NE(call.body.find("tool call"), std::string::npos) << call.body;
  EXPECT_EQ(
      rig.post("/v1/chat/completions", R"({"user_name":"A: b","messages":[{"role":"user","content":"hi"}]})")
          .status,
      400);
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(BadInput, BodyLimit) {
  ServerOptions options;
  options.limits.max_body_bytes = 1000;
  const ServerRig rig(options);
  const Reply reply = rig.post("/v1/completions", R"({"prompt":")" + std::string(1000, 'x') + "\"}");
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_NE(reply.body.find(R"({"error":{"message":)"), std::string::npos) << reply.body;
}

// What a client names is repeated in every event of a stream and in status pages.
TEST(BadInput, NamesHaveABound) {
  ServerRig rig;
  const auto model = [&](size_t length) {
    return rig.post("/v1/completions", R"({"prompt":"x","model":")" + std::string(length, 'm') + "\"}");
  };
  EXPECT_EQ(model(256).status, 200);
  EXPECT_EQ(model(257).status, 400);
  EXPECT_NE(model(257).body.find("'model' holds 257 bytes; at most 256"), std::string::npos);
  const std::string longest(512, 's'), longer(513, 's');
  const struct {
    const char* method;
    std::string path, body;
  } kDoors[] = {
      {"POST", "/state/chat/completions", R"({"contents":["A"],"session_id":"@"})"},
      {"POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"session_id":"@"})"},
      {"POST", "/multi_state/chat/completions", R"({"contents":["A"],"dialogue_idx":0,"session_id":"@"})"},
      {"POST", "/state/delete", R"({"session_id":"@"})"},
      {"POST", "/v1/server/resume", R"({"session_id":"@"})"},
      {"POST", "/v1/sessions/a/fork", R"({"session_id":"@"})"},
      {"GET", "/v1/sessions/@/state", ""},
  };
  for (const auto& door : kDoors) {
    const auto send = [&](const std::string& id) {
      std::string path = door.path, body = door.body;
      for (std::string* text : {&path, &body}) {
        if (const size_t at = text->find('@'); at != std::string::npos) text->replace(at, 1, id);
      }
      return rig.send(door.method, path, body);
    };
    EXPECT_NE(send(longest).status, 400) << door.path;
    EXPECT_EQ(send(longer).status, 400) << door.path;
    EXPECT_NE(send(longer).body.find("513 bytes"), std::string::npos) << door.path;
  }
  Headers headers;
  headers.add("X-RWKV-Session-Id", longer);
  EXPECT_EQ(
      rig.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})", headers).status,
      400);
}

// Bytes of gzip: {"prompt":"abc"}
std::string compressed_prompt() {
  constexpr unsigned char kBytes[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56,
                                      0x2a, 0x28, 0xca, 0xcf, 0x2d, 0x28, 0x51, 0xb2, 0x52, 0x4a, 0x4c, 0x4a,
                                      0x56, 0xaa, 0x05, 0x00, 0xd4, 0x7d, 0xcc, 0xe8, 0x10, 0x00, 0x00, 0x00};
  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};
}

TEST(BadInput, CompressedBodies) {
  ServerRig rig;
  const Headers gzip = header("Content-Encoding", "gzip");
  EXPECT_EQ(rig.post("/v1/completions", compressed_prompt(), gzip).status, 200);
  EXPECT_EQ(rig.last_ask().prompt.size(), 3u);
  const Reply broken = rig.post("/v1/completions", "plain", gzip);
  EXPECT_EQ(broken.status, 400);
  EXPECT_NE(broken.body.find("gzip"), std::string::npos);
  EXPECT_EQ(rig.post("/v1/completions", "{}", header("Content-Encoding", "br")).status, 415);
}

TEST(BadInput, LargestBodyIsServed) {
  ServerOptions options;
  options.limits.max_prompt_tokens = int64_t{1} << 30;
  ServerRig rig(options);
  const size_t length = (size_t{64} << 20) - 100;
  const Reply reply =
      rig.post("/v1/completions", R"({"max_tokens":1,"prompt":")" + std::string(length, 'x') + "\"}");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(rig.last_ask().prompt.size(), length);
}

TEST(BadInput, WrongTypesNameTheField) {
  const ServerRig rig;
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],)";
  const char* fields[] = {"\"model\":7",
                          "\"temperature\":-1",
                          "\"temperature\":1001",
                          "\"temperature\":\"hot\"",
                          "\"top_k\":[]",
                          "\"top_k\":1.5",
                          "\"top_p\":{}",
                          "\"min_p\":2",
                          "\"presence_penalty\":\"x\"",
                          "\"frequency_penalty\":true",
                          "\"alpha_decay\":2",
                          "\"max_tokens\":-1",
                          "\"max_tokens\":\"many\"",
                          "\"max_completion_tokens\":1.5",
                          "\"stop\":7",
                          "\"stop\":[7]",
                          "\"stop_tokens\":{}",
                          "\"stop_tokens\":[-1]",
                          "\"stop_tokens\":[65536]",
                          "\"stop_tokens\":[1.5]",
                          "\"ignore_eos\":\"maybe\"",
                          "\"seed\":-1",
                          "\"seed\":\"x\"",
                          "\"logit_bias\":[]",
                          "\"logit_bias\":{\"x\":1}",
                          "\"logit_bias\":{\"70000\":1}",
                          "\"logit_bias\":{\"5\":101}",
                          "\"logit_bias\":{\"5\":\"x\"}",
                          "\"stream\":\"x\"",
                          "\"stream_options\":7",
                          "\"chunk_size\":\"x\"",
                          "\"pad_zero\":\"x\"",
                          "\"use_prefix_cache\":7",
                          "\"speculate\":7",
                          "\"prediction\":7",
                          "\"prediction\":{}",
                          "\"prediction\":{\"type\":\"tokens\"}",
                          "\"prediction\":{\"type\":\"content\"}",
                          "\"prediction\":{\"type\":\"content\",\"content\":[7]}",
                          "\"params\":[]",
                          "\"n\":0",
                          "\"n\":129",
                          "\"n\":\"x\"",
                          "\"logprobs\":\"x\"",
                          "\"top_logprobs\":5",
                          "\"think\":\"x\"",
                          "\"reasoning_effort\":\"huge\"",
                          "\"reasoning_format\":\"x\"",
                          "\"system\":7",
                          "\"user\":7",
                          "\"metadata\":7",
                          "\"metadata\":{\"a\":7}",
                          "\"runtime\":7",
                          "\"service_tier\":7",
                          "\"service_tier\":\"gold\"",
                          "\"store\":\"x\"",
                          "\"response_format\":7",
                          "\"response_format\":{}",
                          "\"response_format\":{\"type\":\"json_schema\"}",
                          "\"tools\":[{}]",
                          "\"tool_choice\":\"required\"",
                          "\"functions\":[{}]",
                          "\"modalities\":[\"audio\"]",
                          "\"temperature_last\":\"x\"",
                          "\"include_stop_str_in_output\":\"x\"",
                          "\"add_generation_prompt\":7"};
  for (const std::string field : fields) {
    const Reply reply = rig.post("/v1/chat/completions", chat + field + "}");
    EXPECT_EQ(reply.status, 400) << field;
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    EXPECT_NE(reply.body.find(name), std::string::npos) << field << " answered " << reply.body;
    EXPECT_TRUE(parse_json(reply.body).ok());
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(BadInput, Messages) {
  const ServerRig rig;
  for (const std::string messages :
       {R"("x")", "7", "{}", "[7]", R"([{"content":"x"}])", R"([{"role":7,"content":"x"}])",
        R"([{"role":"user","content":7}])", R"([{"role":"user","content":[{"type":"image_url"}]}])",
        R"([{"role":"user","content":[7]}])", R"([{"role":"user","content":""}])",
        R"([{"role":"tool","content":"x","tool_call_id":"nope"}])"}) {
    const Reply reply = rig.post("/v1/chat/completions", R"({"messages":)" + messages + "}");
    EXPECT_EQ(reply.status, 400) << messages;
    EXPECT_NE(reply.body.find(R"("type":"invalid_request_error")"), std::string::npos) << reply.body;
  }
}

TEST(BadInput, Prompts) {
  const ServerRig rig;
  for (const std::string prompt : {"7", "{}", "[65536]", "[-1]", "[1.5]", R"([1,"a"])", R"(["a",7])", "[[]]",
                                   R"([""])", "[true]", "[[[1]]]"}) {
    const Reply reply = rig.post("/v1/completions", R"({"prompt":)" + prompt + "}");
    EXPECT_EQ(reply.status, 400) << prompt;
    EXPECT_NE(reply.body.find("prompt"), std::string::npos) << reply.body;
  }
  for (const std::string field : {R"("best_of":2,"n":3)", R"("best_of":2,"stream":true)", R"("logprobs":21)",
                                  R"("echo":true,"logprobs":1,"stream":true)"}) {
    EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x",)" + field + "}").status, 400) << field;
  }
}

// Whatever makes them large: prompts, choices, log-probabilities of likely other tokens.
TEST(BadInput, EchoesHaveABoundInBytes) {
  const ServerRig rig;
  const auto reply = [&](size_t length, const std::string& fields) {
    return rig.post("/v1/completions", R"({"max_tokens":1,"echo":true,"prompt":")" +
                                           std::string(length, 'x') + "\"," + fields + "}");
  };
  for (const auto& [length, fields] : {std::pair<size_t, std::string>{size_t{1} << 20, R"("logprobs":20)"},
                                       {size_t{1} << 15, R"("logprobs":20,"best_of":128)"},
                                       {size_t{4} << 20, R"("n":128)"}}) {
    const Reply refused = reply(length, fields);
    EXPECT_EQ(refused.status, 400) << fields;
    EXPECT_NE(refused.body.find("'echo' makes the answer"), std::string::npos) << refused.body.substr(0, 300);
    EXPECT_NE(refused.body.find("at most 268435456 are allowed"), std::string::npos);
    EXPECT_NE(refused.body.find(R"("param":"echo")"), std::string::npos);
  }
  EXPECT_EQ(reply(size_t{1} << 12, R"("logprobs":20)").status, 200);
  EXPECT_EQ(reply(size_t{1} << 20, R"("n":2)").status, 200);
}

TEST(Lenient, ScalarsInStringsAndNestedDefaults) {
  ServerRig rig;
  const Reply reply = rig.post(
      "/v1/completions",
      R"({"prompt":"x","temperature":"0.5","top_k":"7","max_tokens":5.0,"stream":"False","seed":"18446744073709551615",)"
      R"("params":{"top_p":"0.25","temperature":"0.5","presence_penalty":1},"logit_bias":{"5":"2"},"stop":null})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  const Ask ask = rig.last_ask();
  EXPECT_EQ(ask.sampling.temperature, 0.5f);
  EXPECT_EQ(ask.sampling.top_k, 7);
  EXPECT_EQ(ask.sampling.top_p, 0.25f);
  EXPECT_EQ(ask.sampling.presence, 1.0f);
  EXPECT_EQ(ask.sampling.seed, 18446744073709551615u);
  EXPECT_EQ(ask.max_tokens, 5);
  EXPECT_EQ(ask.sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, 2.0f}}));
}

TEST(Lenient, EdgeValuesAreMapped) {
  ServerRig rig;
  rig.post(
      "/v1/completions",
      R"({"prompt":"x","temperature":0.0005,"top_k":-3,"top_p":1.5,"max_tokens":99999999,"chunk_size":-1})");
  const Ask ask = rig.last_ask();
  EXPECT_EQ(ask.sampling.temperature, 0.0f);
  EXPECT_EQ(ask.sampling.top_k, 0);
  EXPECT_EQ(ask.sampling.top_p, 1.0f);
  EXPECT_EQ(ask.max_tokens, 65536);
}

TEST(Stops, MixedListsAndManyTexts) {
  ServerRig rig;
  rig.post("/v1/completions", R"({"prompt":"x","stop_tokens":[261,"END",5,"5",""],"stop":["Q:"]})");
  EXPECT_EQ(rig.last_ask().stop.ids, (std::vector<int32_t>{0, 5, 261}));
  EXPECT_EQ(rig.last_ask().stop.texts, (std::vector<std::string>{"END", "5", "Q:"}));
  rig.post("/v2/chat/completions", R"({"contents":["x"],"stop_tokens":[]})");
  EXPECT_EQ(rig.last_ask().stop.ids, std::vector<int32_t>{0});
  std::string many = R"({"prompt":"x","stop_tokens":[)";
  for (int i = 0; i < 10000; ++i) many += (i ? ",\"stop" : "\"stop") + std::to_string(i) + "\"";
  EXPECT_EQ(rig.post("/v1/completions", many + "]}").status, 200);
  EXPECT_EQ(rig.last_ask().stop.texts.size(), 10000u);
  const Reply reply =
      rig.post("/v1/completions", R"({"prompt":"x","stop":["1","2","3","4","5","6","7","8","9",)"
                                  R"("10","11","12","13","14","15","16","17"]})");
  EXPECT_EQ(reply.status, 400);
}

TEST(CommonRules, AListedIdGoesBeforeWhatALaterModelsFileIsCalled) {
  ServerRig rig;
  const auto add = [&](const std::string& id, const std::string& path) {
    auto facts = std::make_shared<ServedModel>(*rig.model);
    facts->id = id;
    facts->path = path;
    rig.models.add(facts);
  };
  add("first", "/models/one.pth");
  add("second", "/models/first.pth");
  EXPECT_EQ(rig.models.find({}, "first", true)->path, "/models/one.pth");
  EXPECT_EQ(rig.models.find({}, "second", true)->path, "/models/first.pth");
  EXPECT_EQ(rig.models.find({}, "one", true)->id, "first") << "file names are names still";
}

TEST(CommonRules, AFailedDeviceIsNoHealthyServer) {
  ServerRig rig;
  EXPECT_EQ(rig.get("/health").status, 200);
  rig.engine.fail_device("gone");
  EXPECT_EQ(rig.get("/health").status, 503);
}

}  // namespace
}  // namespace fulmar::testing
