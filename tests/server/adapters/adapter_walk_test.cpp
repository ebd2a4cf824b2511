// Adapters on every route that runs a model: named in any of its ways, told of, refused in the words of the
// route's family, and kept apart from each other and from the base.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <future>

#include "net/json_writer.h"
#include "server/adapters/adapted_rig.h"
#include "server/generate/adapter_fields.h"
#include "server/generating_routes.h"
#include "server/routes.h"
#include "support/shared_files.h"
#include "text/byte_tokenizer.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::map<std::string_view, std::string> kEmbeddings = {
    {"/v1/embeddings", R"({"input":"hi")"},
    {"/api/embed", R"({"input":"hi")"},
    {"/api/embeddings", R"({"prompt":"hi")"},
};

std::map<std::string_view, std::string> all_bodies() {
  auto bodies = kBodies;
  bodies.insert(kEmbeddings.begin(), kEmbeddings.end());
  return bodies;
}

// The fields with which a route says the likeliest text, as a whole.
std::string greedy(std::string_view path) {
  if (kEmbeddings.contains(path)) return "";
  if (path.starts_with("/api/")) return R"(,"options":{"temperature":0})";
  return R"(,"temperature":0,"stream":false)";
}

// Gives each request a session of its own.
std::string in_fresh_session(std::string body) {
  static std::atomic<int> next{0};
  const std::string named = R"("session_id":"s")";
  if (const size_t at = body.find(named); at != std::string::npos)
    body.replace(at, named.size(), fmt::format(R"("session_id":"s{}")", next++));
  return body;
}

// What an answer says, without what differs between two equal ones.
void write_essence(JsonWriter& json, const JsonValue& value) {
  constexpr std::string_view kVolatile[] = {
      "id",         "created",   "created_at", "timings",           "usage", "adapter", "model",
      "session_id", "state_key", "warnings",   "system_fingerprint"};
  if (value.is_object()) {
    json.begin_object();
    for (const auto& [name, member] : value.as_object().members()) {
      const bool volatile_one =
          std::find(std::begin(kVolatile), std::end(kVolatile), name) != std::end(kVolatile);
      if (volatile_one || name.ends_with("_duration") || name.ends_with("_id")) continue;
      json.key(name);
      write_essence(json, member);
    }
    json.end_object();
  } else if (value.is_array()) {
    json.begin_array();
    for (const JsonValue& one : value.as_array()) write_essence(json, one);
    json.end_array();
  } else {
    json.value(value);
  }
}

std::string essence(const Reply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  const auto body = parse_json(reply.body);
  EXPECT_TRUE(body.ok()) << reply.body;
  JsonWriter json;
  if (body.ok()) write_essence(json, *body);
  return json.take();
}

class AdapterWalk : public ::testing::Test {
 protected:
  AdapterWalk() : rig_(tiny_checkpoint(), tokenizer_, 12) {
    version_ = rig_.add("a", small_adapter(rig_.shapes(), 1));
    rig_.add("b", small_adapter(rig_.shapes(), 2));
  }

  Reply ask(std::string_view path, const std::string& body, const std::string& fields) const {
    return rig_.post(path, in_fresh_session(body) + greedy(path) + fields + "}");
  }
  std::string said(std::string_view path, const std::string& body, const std::string& fields) const {
    return essence(ask(path, body, fields));
  }
  void expect_refused(const Reply& reply, std::string_view path, const std::string& text) const {
    EXPECT_EQ(reply.status, 400) << path << reply.body;
    EXPECT_THAT(reply.body, HasSubstr(text)) << path;
    const Route* route = find_route("POST", std::string(path)).route;
    if (route->family == Family::native && !route->family_of_body) {
      EXPECT_EQ(reply.body, fmt::format(R"({{"error":"{}"}})", text)) << path;
    }
  }

  ByteTokenizer tokenizer_;
  AdaptedRig rig_;
  std::string version_;
};

TEST_F(AdapterWalk, ChangesTheAnswerOfEveryRouteInEveryWayOfNamingIt) {
  for (const auto& [path, body] : all_bodies()) {
    SCOPED_TRACE(path);
    const std::string base = said(path, body, ""), a = said(path, body, R"(,"adapter_id":"a")");
    const std::string b = said(path, body, R"(,"adapter_id":"b")");
    EXPECT_NE(a, base);
    EXPECT_NE(b, base);
    EXPECT_NE(a, b);
    EXPECT_EQ(said(path, body, R"(,"adapter_id":"a","adapter_scale":0)"), base);
    EXPECT_EQ(said(path, body, R"(,"adapter_id":"a","adapter_scale":2)"), a);
    EXPECT_EQ(said(path, body, fmt::format(R"(,"adapter_id":"a","adapter_version":"{}")", version_)), a);
    EXPECT_EQ(said(path, body, R"(,"lora":[{"id":0,"scale":1}])"), a);
    EXPECT_EQ(said(path, body, R"(,"lora":[{"id":0,"scale":0},{"id":1,"scale":1}])"), b);
    EXPECT_EQ(said(path, body, R"(,"model":"a")"), a);
    EXPECT_EQ(said(path, body, R"(,"model":"a","adapter_id":"a")"), a);
  }
}

TEST_F(AdapterWalk, TwoAdaptersAndNoneAtOnceAnswerAsEachAlone) {
  for (const auto& [path, body] : all_bodies()) {
    std::vector<std::string> alone;
    std::vector<std::future<std::string>> together;
    const std::vector<std::string> fields = {R"(,"adapter_id":"a")", "", R"(,"adapter_id":"b")"};
    for (const std::string& one : fields) alone.push_back(said(path, body, one));
    for (const std::string& one : fields) {
      together.push_back(
          std::async(std::launch::async, [&, path = path, body = body] { return said(path, body, one); }));
    }
    for (size_t i = 0; i < fields.size(); ++i) EXPECT_EQ(together[i].get(), alone[i]) << path << fields[i];
  }
}

TEST_F(AdapterWalk, WhatCannotBeHadIsRefusedInTheRoutesWords) {
  for (const auto& [path, body] : all_bodies()) {
    const auto refuses = [&, path = path, body = body](const char* fields, const std::string& text) {
      expect_refused(ask(path, body, fields), path, text);
    };
    refuses(R"(,"adapter_id":"none")", "unknown adapter id");
    refuses(R"(,"adapter_id":"a","adapter_version":"00")", "unknown adapter version");
    refuses(R"(,"adapter_scale":1)", "adapter_id is required with adapter_version/adapter_scale");
    refuses(R"(,"adapter_scale":0)", "adapter_id is required with adapter_version/adapter_scale");
    refuses(R"(,"adapter_version":"00")", "adapter_id is required with adapter_version/adapter_scale");
    refuses(R"(,"adapter_id":"a","adapter_scale":"x")", "adapter_scale must be numeric");
    refuses(R"(,"adapter_id":"a","model":"b")", "two adapters named: 'a' (adapter_id) and 'b' (model)");
    refuses(R"(,"adapter_id":"a","lora":[])", "two adapters named: none (lora) and 'a' (adapter_id)");
  }
}

TEST_F(AdapterWalk, FiguresTellOfIt) {
  const std::string told =
      fmt::format(R"("adapter":{{"id":"a","version":"{}","strength":0.5}})", version_.substr(0, 8));
  for (const auto& [path, body] : all_bodies()) {
    if (path.find("translate") != std::string_view::npos) continue;  // tells no figures
    EXPECT_THAT(ask(path, body, R"(,"adapter_id":"a","adapter_scale":1)").body, HasSubstr(told)) << path;
    EXPECT_THAT(ask(path, body, "").body, Not(HasSubstr("\"adapter\""))) << path;
  }
}

TEST_F(AdapterWalk, ASessionGoesOnUnderItsAdapterAlone) {
  for (const auto& [path, body] : kBodies) {
    const FieldGroups& fields = find_route("POST", std::string(path)).route->note->fields;
    if (!fields.find("session_id")) continue;
    std::string turn = in_fresh_session(body);
    if (turn == body) turn += fmt::format(R"(,"session_id":"of {}")", path.substr(1, 9));
    std::replace(turn.begin(), turn.end(), '/', '-');
    turn += R"(,"temperature":0)";
    ASSERT_EQ(rig_.post(path, turn + R"(,"adapter_id":"a"})").status, 200) << path << turn;
    const std::string next =
        turn.find("dialogue_idx\":0") == std::string::npos
            ? turn
            : std::string(turn).replace(turn.find("dialogue_idx\":0"), 15, "dialogue_idx\":1");
    for (const char* other : {"}", R"(,"adapter_id":"b"})", R"(,"adapter_id":"a","adapter_scale":1})"}) {
      const Reply reply = rig_.post(path, next + other);
      EXPECT_EQ(reply.status, 409) << path << other << reply.body;
      EXPECT_THAT(reply.body, HasSubstr("was computed with adapter " + version_)) << path;
      EXPECT_THAT(reply.body, HasSubstr("this request has ")) << path;
    }
    EXPECT_EQ(rig_.post(path, next + R"(,"adapter_id":"a"})").status, 200) << path;
  }
}

TEST_F(AdapterWalk, AResponseGoesOnUnderItsAdapterAlone) {
  const std::string first = R"({"input":"hi","temperature":0)", under_a = R"(,"adapter_id":"a"})";
  const auto made = parse_json(rig_.post("/v1/responses", first + under_a).body);
  ASSERT_TRUE(made.ok());
  const std::string next =
      fmt::format(R"({},"previous_response_id":"{}")", first, made->find("id")->as_string());
  for (const char* other : {"}", R"(,"adapter_id":"b"})"}) {
    const Reply reply = rig_.post("/v1/responses", next + other);
    EXPECT_EQ(reply.status, 409) << reply.body;
    EXPECT_THAT(reply.body, HasSubstr("was computed with adapter " + version_ + "; this request has "));
  }
  EXPECT_EQ(rig_.post("/v1/responses", next + under_a).status, 200);
}

TEST_F(AdapterWalk, AResponseInTheBackgroundHasIt) {
  const std::string body = R"({"input":"hi","temperature":0)";
  const auto queued =
      parse_json(rig_.post("/v1/responses", body + R"(,"background":true,"adapter_id":"a"})").body);
  ASSERT_TRUE(queued.ok());
  const std::string path = "/v1/responses/" + queued->find("id")->as_string();
  Reply reply = rig_.send("GET", path, "");
  const auto under_way = [&] {
    return reply.body.find(R"("status":"queued")") != std::string::npos ||
           reply.body.find(R"("usage":null)") != std::string::npos;
  };
  for (int i = 0; i < 6000 && under_way(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    reply = rig_.send("GET", path, "");
  }
  const auto text_of = [](const std::string& json) {
    return json.substr(json.find("output_text"), json.find("parallel_tool_calls") - json.find("output_text"));
  };
  EXPECT_EQ(text_of(reply.body), text_of(rig_.post("/v1/responses", body + R"(,"adapter_id":"a"})").body));
}

// A further route that runs a model takes the fields; one that runs none refuses them by name.
TEST_F(AdapterWalk, OtherRoutesRefuseTheFieldsByName) {
  const auto bodies = all_bodies();
  for (const Route& route : routes()) {
    if (route.method == "GET" || route.takes_bytes) continue;
    for (const Field& field : kAdapterFields.fields) {
      const bool taken = route.note->fields.find(field.name) != nullptr;
      if (bodies.contains(route.path)) {
        EXPECT_TRUE(taken) << route.path << field.name;
      }
      if (taken) continue;
      const std::string value = field.name == "lora" ? R"([{"id":0,"scale":1}])" : "\"1\"";
      const Reply reply = rig_.send(std::string(route.method), path_with(route.path, "s"),
                                    fmt::format(R"({{"{}":{}}})", field.name, value));
      const bool off = reply.status == 501 || reply.status == 404;  // administration is off
      if (off) continue;
      EXPECT_EQ(reply.status, 400) << route.path << reply.body;
      EXPECT_THAT(reply.body, HasSubstr(fmt::format("'{}'", field.name))) << route.path;
    }
  }
}

// Digits and commas alone, so that templates around a prompt add nothing to it.
class DigitTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    for (const char c : text) {
      if (c >= '0' && c <= '9') out.push_back(c - '0' + 1);
      if (c == ',') out.push_back(11);
    }
  }
  std::string_view bytes(int32_t id) const override {
    constexpr std::string_view kTexts = "0123456789,";
    return id >= 1 && id <= 11 ? kTexts.substr(static_cast<size_t>(id - 1), 1) : std::string_view();
  }
  int32_t vocabulary_size() const override { return 64; }
  std::string_view name() const override { return "digits"; }
  std::optional<int32_t> eos() const override { return 0; }
};

TEST(TrainedAdapter, AnswersInNinesComplementOnEveryRoute) {
  const auto folder = support::shared_folder() / "models";
  const auto file = folder / "adapters/reverse-nines-lora-r8-alpha16.pth";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no trained adapter here";
  auto checkpoint = open_checkpoint(folder / "rwkv7-reverse/reverse-v64-f32.safetensors");
  ASSERT_TRUE(checkpoint.ok());
  const DigitTokenizer tokenizer;
  AdaptedRig rig(std::move(*checkpoint), tokenizer, 12);
  AdapterOptions options;
  options.alpha = 16;
  auto adapter = read_adapter(file, options);
  ASSERT_TRUE(adapter.ok()) << adapter.error().text;
  rig.add("nines", std::move(*adapter));
  for (const auto& [path, body] : kBodies) {
    std::string asked = body;
    for (const char* text : {"\"hi\"", "\"x\"", "\"y\"", "\"a\""}) {
      for (size_t at; (at = asked.find(text)) != std::string::npos;)
        asked.replace(at, std::string_view(text).size(), "\"123,\"");
    }
    asked += greedy(path);
    if (path.find("translate") == std::string_view::npos) asked += R"(,"pad_zero":false)";
    EXPECT_THAT(essence(rig.post(path, in_fresh_session(asked) + "}")), HasSubstr("321")) << path;
    const auto nines = essence(rig.post(path, in_fresh_session(asked) + R"(,"adapter_id":"nines"})"));
    EXPECT_THAT(nines, HasSubstr("678")) << path;
    EXPECT_THAT(nines, Not(HasSubstr("321"))) << path;
  }
}

}  // namespace
}  // namespace fulmar::testing
