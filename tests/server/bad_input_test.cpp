// What every route says to input that it cannot use: status and shape by its family, the field named, and
// nothing changed.
#include <gmock/gmock.h>

#include "server/admin_rig.h"
#include "server/routes.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct BadInput {
  const char* target;
  const char* body;
  int status;
  const char* names;  // stands in the answer
};

constexpr const char* kEmptyList = "Empty prompts list";
constexpr const char* kOnePrompt = "Request must contain exactly one prompt";

const BadInput kNative[] = {
    {"/v1/chat/completions", R"({"contents":7})", 400, "'contents'"},
    {"/v1/chat/completions", R"({"contents":["a",7]})", 400, "'contents[1]'"},
    {"/v1/chat/completions", R"({"contents":["a",""]})", 400, "prompt 1 of 2 is empty"},
    {"/v1/chat/completions", R"({"contents":["a"],"temperature":-1})", 400, "'temperature'"},
    {"/v1/chat/completions", R"({"contents":["a","b"],"session_id":"s"})", 400, kOnePrompt},
    {"/v2/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})", 400, kEmptyList},
    {"/v2/chat/completions", R"({"contents":{}})", 400, "'contents'"},
    {"/v2/chat/completions", R"({"contents":["a"],"top_k":"x"})", 400, "'top_k'"},
    {"/v2/chat/completions", R"({"contents":["a"],"model":7})", 400, "'model'"},
    {"/v2/chat/completions", R"({"contents":["a"],"state_id":"none"})", 404, "'none'"},
    {"/v3/chat/completions", R"({"messages":[]})", 400, kEmptyList},
    {"/v3/chat/completions", R"({"messages":[7]})", 400, "messages[0]"},
    {"/v3/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"enable_think":7})", 400,
     "'enable_think'"},
    {"/v1/batch/completions", R"({"contents":[7]})", 400, "'contents[0]'"},
    {"/v1/batch/completions", R"({"prompt":"x"})", 400, kEmptyList},
    {"/v1/batch/completions", R"({"contents":["a"],"max_tokens":"many"})", 400, "'max_tokens'"},
    {"/big_batch/completions", R"({"contents":[]})", 400, "contents is empty"},
    {"/big_batch/completions", R"({"contents":["a"],"noise":-1})", 400, "'noise'"},
    {"/big_batch/completions", R"({"contents":["a"],"stop_tokens":[70000]})", 400, "'stop_tokens'"},
    {"/FIM/v1/batch-FIM", R"({"prefix":["a"]})", 400, "same length"},
    {"/FIM/v1/batch-FIM", R"({"prefix":[7],"suffix":["b"]})", 400, "'prefix[0]'"},
    {"/FIM/v1/batch-FIM", R"({"prefix":[],"suffix":[]})", 400, kEmptyList},
    {"/translate/v1/batch-translate", R"({"text_list":["a"]})", 400, "Missing target_lang"},
    {"/translate/v1/batch-translate", R"({"target_lang":"en"})", 400, "Empty text_list"},
    {"/translate/v1/batch-translate", R"({"target_lang":"en","text_list":[7]})", 400, "'text_list[0]'"},
    {"/translate/v1/batch-translate", R"({"target_lang":7,"text_list":["a"]})", 400, "'target_lang'"},
    {"/state/chat/completions", R"({"contents":["a"]})", 400, "Missing session_id parameter"},
    {"/state/chat/completions", R"({"session_id":7,"contents":["a"]})", 400, "'session_id'"},
    {"/state/chat/completions", R"({"session_id":"s","contents":[]})", 400, kOnePrompt},
    {"/state/delete", "{}", 400, "Missing session_id parameter"},
    {"/state/delete", R"({"session_id":"s","delete_prefix":"x"})", 400, "'delete_prefix'"},
    {"/multi_state/chat/completions", R"({"session_id":"s","contents":["a"]})", 400, "dialogue_idx"},
    {"/multi_state/chat/completions", R"({"session_id":"s","contents":["a"],"dialogue_idx":-1})", 400,
     "dialogue_idx"},
    {"/v1/tokens/count", "{}", 400, "Missing text or messages"},
    {"/v1/tokens/count", R"({"text":7})", 400, "'text'"},
    {"/v1/tokens/count", R"({"messages":7})", 400, "'messages'"},
    {"/v1/server/stop", R"({"request_id":7})", 400, "'request_id'"},
    {"/v1/server/pause", R"({"request_id":[]})", 400, "'request_id'"},
    {"/v1/server/resume", "{}", 400, "Missing request_id"},
    {"/v1/server/resume", R"({"request_id":"none"})", 404, "Paused request not found"},
    {"/v1/state/delete", "{}", 400, "'state_id'"},
    {"/tokenize", R"({"content":7})", 400, "'content'"},
    {"/detokenize", R"({"tokens":"x"})", 400, "'tokens'"},
    {"/detokenize", R"({"tokens":[-1]})", 400, "tokens"},
};

#define FULMAR_CHAT R"({"messages":[{"role":"user","content":"x"}],)"

const BadInput kOpenai[] = {
    {"/v1/chat/completions", FULMAR_CHAT R"("n":0})", 400, "'n'"},
    {"/v1/chat/completions", FULMAR_CHAT R"("model":7})", 400, "'model'"},
    {"/v1/chat/completions", FULMAR_CHAT R"("prompt":"x"})", 400, "ambiguous_input"},
    {"/v1/chat/completions", R"({"messages":"x"})", 400, "'messages'"},
    {"/v1/completions", R"({"prompt":7})", 400, "'prompt'"},
    {"/v1/completions", R"({"prompt":[]})", 400, "missing_input"},
    {"/v1/completions", R"({"prompt":"x","best_of":0})", 400, "'best_of'"},
    {"/completions", R"({"prompt":{}})", 400, "'prompt'"},
    {"/chat/completions", "{}", 400, "missing_input"},
    {"/openai/v1/chat/completions", "{}", 400, "missing_input"},
    {"/openai/v1/chat/completions", R"({"messages":7})", 400, "'messages'"},
    {"/openai/v1/chat/completions", FULMAR_CHAT R"("top_p":"x"})", 400, "'top_p'"},
    {"/openai/v1/chat/completions", R"({"session_id":"s"})", 400, "missing_input"},
    {"/v1/responses", "{}", 400, "missing_input"},
    {"/v1/responses", R"({"input":7})", 400, "'input'"},
    {"/v1/responses", R"({"input":"x","previous_response_id":"resp_0"})", 404, "response_not_found"},
    {"/v1/responses", R"({"input":"x","tools":7})", 400, "'tools'"},
    {"/v1/model/load", "{}", 400, "'model'"},
    {"/v1/model/load", R"({"model":"three"})", 400, "no such model"},
    {"/v1/embeddings", "{}", 400, "'input'"},
    {"/v1/sessions/none/fork", R"({"session_id":"t"})", 404, "session_not_found"},
};

const BadInput kAdmin[] = {
    {"/loadmodel", "{}", 400, "'model_filename'"},
    {"/loadmodel", R"({"model_filename":7})", 400, "'model_filename'"},
    {"/loadmodel", R"({"model_filename":"m","model_strategy":"nonsense"})", 400, "nonsense"},
    {"/loadmodel", R"({"model_filename":"m","default_top_p":"x"})", 400, "'default_top_p'"},
    {"/loadmodel", R"({"model_filename":"bad"})", 404, "no file"},
    {"/removemodel", R"({"model_viewname":"none"})", 404, "'none'"},
    {"/loadstatemodel", "{}", 400, "'state_filename'"},
    {"/loadstatemodel", R"({"state_filename":"bad","state_viewname":"S"})", 400, "State file is incorrect."},
    {"/mrss_loadstatemodel", R"({"state_viewname":"M","state_filenames":7})", 400, "'state_filenames'"},
    {"/mrss_set_gatingweight", R"({"state_viewname":"M","state_gatingweight":"x"})", 400,
     "'state_gatingweight'"},
};

class EveryFamily : public ::testing::Test {
 protected:
  // Every case on one server, whose models, states and sessions must be as before at the end.
  template <size_t count>
  void check(const BadInput (&cases)[count], const char* shape) {
    AdminRig rig;
    const std::string models = rig.get("/v1/models").body;
    for (const BadInput& bad : cases) {
      const Reply reply = rig.post(bad.target, bad.body);
      EXPECT_EQ(reply.status, bad.status) << bad.target << " " << bad.body << " " << reply.body;
      EXPECT_THAT(reply.body, StartsWith(shape)) << bad.target << " " << bad.body;
      EXPECT_THAT(reply.body, HasSubstr(bad.names)) << bad.target << " " << bad.body;
      EXPECT_TRUE(parse_json(reply.body).ok()) << reply.body;
    }
    EXPECT_EQ(rig.get("/v1/models").body, models);
    EXPECT_EQ(rig.get("/v1/sessions").body, R"({"object":"list","data":[],"has_more":false})");
    EXPECT_TRUE(rig.engine.asks().empty()) << "a bad request reached the engine";
  }
};

TEST_F(EveryFamily, NativeErrorsAreAString) { check(kNative, R"({"error":")"); }
TEST_F(EveryFamily, OpenaiErrorsAreAnObject) { check(kOpenai, R"({"error":{"message":")"); }
TEST_F(EveryFamily, AdminErrorsAreADetail) { check(kAdmin, R"({"detail":")"); }

// A path of each route that takes a JSON body.
std::vector<std::pair<const Route*, std::string>> routes_with_a_body() {
  std::vector<std::pair<const Route*, std::string>> found;
  for (const Route& route : routes()) {
    if (route.method == "GET" || route.takes_bytes) continue;
    found.emplace_back(&route, path_with(route.path, "x"));
  }
  return found;
}

TEST(EveryRoute, RefusesWhatIsNoJsonObject) {
  AdminRig rig;
  for (const auto& [route, path] : routes_with_a_body()) {
    for (const char* body : {"{", "[]", "7", "null", "\"x\"", "{\"a\":1}}"}) {
      const Reply reply = rig.send(std::string(route->method), path, body);
      EXPECT_EQ(reply.status, 400) << path << " " << body << " " << reply.body;
      EXPECT_THAT(reply.body, HasSubstr("Invalid JSON")) << path << " " << body;
      // Of routes whose shape depends on the body the path decides where there is none.
      const bool public_path = path.starts_with("/v1/") || path.starts_with("/openai/");
      const bool openai = route->family_of_body ? public_path : route->family == Family::openai;
      const bool anthropic = route->family == Family::anthropic;
      EXPECT_THAT(reply.body, StartsWith(anthropic ? R"({"type":"error","error":{"type":")"
                                         : openai  ? R"({"error":{"message":")"
                                         : route->family == Family::admin ? R"({"detail":")"
                                                                          : R"({"error":")"))
          << path;
    }
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

// Returns how an error of a family begins, 400 where the status shows.
const char* error_start(Family family) {
  switch (family) {
    case Family::anthropic:
      return R"({"type":"error","error":{"type":"invalid_request_error","message":")";
    case Family::openai:
      return R"({"error":{"message":")";
    case Family::admin:
      return R"({"detail":")";
    case Family::native:
      return R"({"error":")";
  }
  return "";
}

Headers two_headers(const std::string& name, const std::string& one, const std::string& other) {
  Headers headers = header(name, one);
  headers.add(name, other);
  return headers;
}

// What is refused before any handler sees it has the shape of the path's family, too.
TEST(EveryRoute, RefusesAHeadInTheShapeOfItsFamily) {
  AdminRig rig;
  for (const Route& route : routes()) {
    const std::string path = path_with(route.path, "x"), method(route.method);
    const std::pair<Reply, const char*> replies[] = {
        {rig.send(method, path + "?a=%ff"), "UTF-8"},
        {rig.send(method, path + "?%00"), "NUL"},
        {rig.send(method, path + "?a=%zz"), "'%zz'"},
        {rig.send(method, path_with(route.path, "%ff") + "?a=%ff"), "UTF-8"},
        {rig.send(method, path, "", header("X-RWKV-Session-Id", "jos\xe9")), "X-RWKV-Session-Id"},
        {rig.send(method, path, "", header("x-rwkv-state-id", "\xc3")), "x-rwkv-state-id"},
        {rig.send(method, path, "", header("Fulmar-Owner", "\xff")), "Fulmar-Owner"},
        {rig.send(method, path, "", two_headers("X-RWKV-Session-Id", "a", "b")), "X-RWKV-Session-Id"},
    };
    for (const auto& [reply, names] : replies) {
      EXPECT_EQ(reply.status, 400) << path << " " << names << " " << reply.body;
      EXPECT_THAT(reply.body, StartsWith(error_start(route.family))) << path;
      EXPECT_THAT(reply.body, HasSubstr(names)) << path;
    }
  }
  for (const auto& [path, family] : {std::pair("/v1/%ff", Family::openai),
                                     {"/openai/%00", Family::openai},
                                     {"/v1/messages/%zz", Family::anthropic},
                                     {"/%ff", Family::native}}) {
    const Reply reply = rig.get(path);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_THAT(reply.body, StartsWith(error_start(family))) << path;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(EveryRoute, RefusesAWrongPasswordBeforeAnythingElse) {
  ServerOptions options;
  options.password = "right";
  ServerRig rig(options);
  Headers wrong;
  wrong.set("Authorization", "Bearer wrong");
  for (const auto& [route, path] : routes_with_a_body()) {
    const Reply reply = rig.send(std::string(route->method), path, R"({"password":"wrong","n":0})", wrong);
    EXPECT_EQ(reply.status, 401) << path;
    const char* shape =
        route->family == Family::anthropic
            ? R"({"type":"error","error":{"type":"authentication_error","message":"Unauthorized)"
        : route->family == Family::openai ? R"({"error":{"message":"Unauthorized)"
        : route->family == Family::native ? R"({"error":"Unauthorized)"
                                          : R"({"detail":"Unauthorized)";
    EXPECT_THAT(reply.body, StartsWith(shape)) << path;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(EveryRoute, RefusesABodyThatIsTooLarge) {
  ServerOptions options;
  options.limits.max_body_bytes = 100;
  ServerRig rig(options);
  const std::string body = R"({"contents":[")" + std::string(200, 'x') + "\"]}";
  for (const auto& [route, path] : routes_with_a_body()) {
    EXPECT_EQ(rig.send(std::string(route->method), path, body).status, 413) << path;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(GeneratingRoutes, KnowNoOtherModelWhenStrictAndNoneWithoutOne) {
  ServerOptions options;
  options.strict_model = true;
  ServerRig rig(options);
  const std::pair<const char*, const char*> cases[] = {
      {"/v1/chat/completions", FULMAR_CHAT R"("model":"other"})"},
      {"/v1/chat/completions", R"({"contents":["x"],"model":"other"})"},
      {"/v1/completions", R"({"prompt":"x","model":"other"})"},
      {"/openai/v1/chat/completions", FULMAR_CHAT R"("model":"other"})"},
      {"/v2/chat/completions", R"({"contents":["x"],"model":"other"})"},
      {"/v3/chat/completions", R"({"contents":["x"],"model":"other"})"},
      {"/v1/batch/completions", R"({"contents":["x"],"model":"other"})"},
      {"/big_batch/completions", R"({"contents":["x"],"model":"other"})"},
      {"/FIM/v1/batch-FIM", R"({"prefix":["x"],"suffix":["y"],"model":"other"})"},
      {"/translate/v1/batch-translate", R"({"target_lang":"en","text_list":["x"],"model":"other"})"},
      {"/state/chat/completions", R"({"session_id":"s","contents":["x"],"model":"other"})"},
      {"/multi_state/chat/completions",
       R"({"session_id":"s","dialogue_idx":0,"contents":["x"],"model":"other"})"},
      {"/v1/responses", R"({"input":"x","model":"other"})"},
      {"/v1/embeddings", R"({"input":"x","model":"other"})"},
      {"/v1/messages", FULMAR_CHAT R"("max_tokens":1,"model":"other"})"},
      {"/api/chat", FULMAR_CHAT R"("model":"other"})"},
      {"/api/generate", R"({"prompt":"x","model":"other"})"},
      {"/completion", R"({"prompt":"x","model":"other"})"},
      {"/infill", R"({"input_prefix":"x","input_suffix":"y","model":"other"})"},
      {"/v1/tokens/count", R"({"text":"x","model":"other"})"},
  };
  for (const auto& [path, body] : cases) {
    const Reply reply = rig.post(path, body);
    EXPECT_EQ(reply.status, 404) << path << reply.body;
    EXPECT_THAT(reply.body, HasSubstr("The model 'other' does not exist")) << path;
  }
  rig.models.remove("tiny-rwkv7");
  for (const auto& [path, body] : cases) {
    const Reply reply = rig.post(path, body);
    EXPECT_EQ(reply.status, 503) << path << reply.body;
    EXPECT_THAT(reply.body, HasSubstr("No model loaded")) << path;
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

}  // namespace
}  // namespace fulmar::testing
