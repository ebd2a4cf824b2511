// Who may call what on every route: the password in all its places, pages of other sites, CORS.
#include <gmock/gmock.h>

#include <thread>

#include "net/json.h"
#include "net/raw_socket.h"
#include "server/generate/kept_fields.h"
#include "server/generating_routes.h"
#include "server/openai/openai.h"
#include "server/routes.h"
#include "server/server_rig.h"
#include "server/status/status.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNativeUnauthorized = R"({"error":"Unauthorized: invalid or missing password"})";
constexpr const char* kOpenaiUnauthorized =
    R"({"error":{"message":"Unauthorized: invalid or missing password","type":"authentication_error","param":null,"code":"invalid_api_key"}})";

ServerOptions with_password() {
  ServerOptions options;
  options.password = "p";
  return options;
}

TEST(Auth, EveryChannelOpensAndNothingElse) {
  const ServerRig rig(with_password());
  const std::string path = "/v1/chat/completions";
  EXPECT_EQ(rig.post(path, R"({"contents":["A"],"password":"p"})").status, 200);
  EXPECT_EQ(rig.post(path, R"({"contents":["A"]})", header("Authorization", "Bearer p")).status, 200);
  EXPECT_EQ(rig.post(path, R"({"contents":["A"]})", header("authorization", "bearer p")).status, 200);
  EXPECT_EQ(rig.post(path, R"({"contents":["A"]})", header("X-Api-Key", "p")).status, 200);
  for (const std::string wrong : {"pp", "q", "", "P"}) {
    const Reply reply = rig.post(path, R"({"contents":["A"],"password":")" + wrong + R"("})",
                                 header("Authorization", "Bearer " + wrong));
    EXPECT_EQ(reply.status, 401) << wrong;
    EXPECT_EQ(reply.body, kNativeUnauthorized);
  }
  EXPECT_EQ(rig.post(path, R"({"contents":["A"],"password":7})").status, 401);
  EXPECT_EQ(rig.post(path, R"({"messages":[]})").body, kOpenaiUnauthorized);
  EXPECT_EQ(rig.post(path, "{broken").body, kOpenaiUnauthorized) << "the key is checked before the body";
  EXPECT_EQ(rig.post("/v2/chat/completions", "{broken").body, kNativeUnauthorized);
}

TEST(Auth, QueryKeyWorksOnTranslateOnly) {
  const std::string body = R"({"target_lang":"en","text_list":["a"]})";
  const ServerRig rig(with_password());
  EXPECT_EQ(rig.post("/translate/v1/batch-translate", body).status, 401);
  EXPECT_EQ(rig.post("/translate/v1/batch-translate?key=p", body).status, 200);
  EXPECT_EQ(rig.post("/v2/chat/completions?key=p", R"({"contents":["A"]})").status, 401);
  ServerOptions open = with_password();
  open.open_translate = true;
  EXPECT_EQ(ServerRig(open).post("/translate/v1/batch-translate", body).status, 200);
}

TEST(Auth, OpenRoutes) {
  ServerOptions all = with_password();
  all.auth_all = true;
  const ServerRig usual(with_password()), closed(all);
  for (const std::string path : {"/health", "/healthz", "/healthcheck", "/"}) {
    EXPECT_EQ(usual.get(path).status, 200) << path;
    EXPECT_EQ(closed.get(path).status, 200) << path;
  }
  for (const std::string path : {"/v1/models", "/models", "/metrics", "/slots", "/props", "/v1/server/status",
                                 "/v1/stats", "/v1/queue/status"}) {
    EXPECT_EQ(usual.get(path).status, 200) << path;
    EXPECT_EQ(closed.get(path).status, 401) << path;
    EXPECT_EQ(closed.get(path, header("X-Api-Key", "p")).status, 200) << path;
  }
  EXPECT_EQ(usual.get("/openai/v1/models").status, 401);
  EXPECT_NE(usual.get("/props").body.find(R"("model_path":"")"), std::string::npos);
  EXPECT_NE(usual.get("/props", header("X-Api-Key", "p")).body.find("/models/tiny-rwkv7.pth"),
            std::string::npos);
}

TEST(Auth, EveryOtherRouteIsClosed) {
  const ServerRig rig(with_password());
  for (const Route& route : routes()) {
    if (route.access == Access::open || route.access == Access::status || route.access == Access::listing) {
      continue;
    }
    const std::string path = path_with(route.path, "x");
    EXPECT_EQ(rig.send(std::string(route.method), path).status, 401) << path;
  }
}

TEST(Auth, WithoutPasswordAnyHeaderIsIgnored) {
  const ServerRig rig;
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x"})", header("Authorization", "Bearer None")).status,
            200);
}

TEST(Auth, NoLargeBodyIsTakenBeforeTheKey) {
  ServerOptions options = with_password();
  options.limits.max_unkeyed_body_bytes = 1000;
  const ServerRig rig(options);
  const std::string large =
      R"({"contents":["A"],"password":"p","padding":")" + std::string(2000, 'x') + "\"}";
  for (const Headers& headers : {Headers(), header("Authorization", "Bearer wrong")}) {
    const Reply refused = rig.post("/v2/chat/completions", large, headers);
    EXPECT_EQ(refused.status, 401);
    EXPECT_NE(refused.body.find("at most 1000 bytes"), std::string::npos) << refused.body;
  }
  EXPECT_EQ(rig.post("/v2/chat/completions", large, header("X-Api-Key", "p")).status, 200);
  EXPECT_EQ(rig.post("/v2/chat/completions", R"({"contents":["A"],"password":"p"})").status, 200);
  EXPECT_EQ(ServerRig().post("/v2/chat/completions", large).status, 200) << "where no key is asked for";
}

TEST(Auth, The401OfTranslateNamesItsWaysIn) {
  const ServerRig rig(with_password());
  const std::string body = rig.post("/translate/v1/batch-translate", R"({"target_lang":"en"})").body;
  EXPECT_NE(body.find("?key="), std::string::npos) << body;
  EXPECT_NE(body.find("--open translate"), std::string::npos) << body;
}

TEST(Auth, PagesOfOtherSitesDoNotAdministerAnOpenServer) {
  const ServerRig open, locked(with_password());
  const Headers elsewhere = header("Sec-Fetch-Site", "cross-site");
  EXPECT_EQ(open.post("/v1/server/stop", "{}", elsewhere).status, 403);
  EXPECT_EQ(open.post("/v1/server/stop", "{}", header("Origin", "https://elsewhere.example")).status, 403);
  EXPECT_EQ(open.post("/v1/server/stop", "{}", header("Sec-Fetch-Site", "same-origin")).status, 200);
  EXPECT_EQ(open.post("/v1/server/stop", "{}").status, 200);
  EXPECT_EQ(open.post("/v2/chat/completions", R"({"contents":["A"]})", elsewhere).status, 200);
  Headers keyed = elsewhere;
  keyed.add("X-Api-Key", "p");
  EXPECT_EQ(locked.post("/v1/server/stop", "{}", keyed).status, 200) << "the page was given the key";
}

TEST(Auth, PagesOfOtherSitesGoOnFromNoSessionOfAnOpenServer) {
  const ServerRig open;
  const auto refused = [&](std::string_view path, const std::string& body) {
    const std::string text = body + "}";
    EXPECT_EQ(open.post(std::string(path), text, header("Sec-Fetch-Site", "cross-site")).status, 403) << path;
    EXPECT_NE(open.post(std::string(path), text, header("Sec-Fetch-Site", "same-origin")).status, 403)
        << path;
  };
  const KeptFields keeps(routes());
  size_t kept = 0;
  for (const auto& [path, body] : kBodies) {
    const JsonValue parsed = *parse_json(body + "}");
    if (!keeps.keeps(path, parsed, "session_id")) continue;
    const bool named = parsed.find("session_id") != nullptr;
    const Reply reply = open.post(std::string(path), body + (named ? "}" : R"(,"session_id":"s"})"));
    if (reply.status != 200) continue;  // a route without sessions says so
    refused(path, named ? body : body + R"(,"session_id":"s")");
    ++kept;
  }
  EXPECT_GE(kept, 5u);
  refused("/v1/responses", R"({"input":"hi","previous_response_id":"resp_1")");
}

// What names something that is kept, and what lists it.
TEST(Auth, PagesOfOtherSitesDoNotGetAtWhatIsKeptOnAnOpenServer) {
  const ServerRig open;
  size_t guarded = 0;
  for (const Route& route : routes()) {
    const bool names_one = route.access == Access::key && route.path.find('*') != std::string_view::npos &&
                           route.handle != show_model;
    EXPECT_FALSE(names_one) << route.path;
    if (route.access != Access::kept) continue;
    const std::string path = path_with(route.path, "x"), method(route.method);
    EXPECT_EQ(open.send(method, path, "{}", header("Sec-Fetch-Site", "cross-site")).status, 403) << path;
    EXPECT_NE(open.send(method, path, "{}", header("Sec-Fetch-Site", "same-origin")).status, 403) << path;
    ++guarded;
  }
  EXPECT_GE(guarded, 15u);
}

TEST(Auth, SessionIdsAreNotShownWithoutTheKey) {
  ServerRig rig(with_password());
  const Headers key = header("X-Api-Key", "p");
  rig.engine.hold_after(1);
  std::thread client(
      [&] { rig.post("/state/chat/completions", R"({"session_id":"secret-id","contents":["A"]})", key); });
  while (rig.engine.asks().empty()) std::this_thread::yield();
  EXPECT_NE(rig.get("/v1/server/status", key).body.find("secret-id"), std::string::npos);
  EXPECT_EQ(rig.get("/v1/server/status").body.find("secret-id"), std::string::npos);
  rig.engine.hold_after(-1);
  client.join();
}

TEST(Cors, PreflightAndErrors) {
  const ServerRig rig(with_password());
  const Reply preflight = rig.send("OPTIONS", "/v2/chat/completions", {},
                                   header("Access-Control-Request-Headers", "X-My-Header"));
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.body, "");
  EXPECT_EQ(preflight.headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(preflight.headers.get("Access-Control-Allow-Methods"), "GET, POST, PUT, DELETE, OPTIONS");
  EXPECT_EQ(preflight.headers.get("Access-Control-Allow-Headers"),
            "Content-Type, Authorization, X-My-Header");
  EXPECT_EQ(preflight.headers.get("Access-Control-Max-Age"), "86400");
  EXPECT_EQ(rig.post("/v2/chat/completions", "{}").headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(rig.get("/nowhere").headers.get("Access-Control-Allow-Origin"), "*");
}

// A page that makes its own name mean this server sends that name; probes of HTTP/1.0 send none.
TEST(Host, IsAskedForWhereNothingElseIs) {
  const auto status_of = [](const ServerRig& rig, const std::string& bytes) {
    test::RawSocket socket(rig.server->port());
    socket.send(bytes);
    return socket.read_until("\r\n");
  };
  const std::string old = "GET /v1/models HTTP/1.0\r\n", now = "GET /v1/models HTTP/1.1\r\n";
  const ServerRig open;
  EXPECT_THAT(status_of(open, old + "\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(status_of(open, old + "Host: evil.example\r\n\r\n"), HasSubstr(" 421 "));
  EXPECT_THAT(status_of(open, old + "Host: localhost\r\n\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(status_of(open, now + "\r\n"), HasSubstr(" 400 "));
  EXPECT_THAT(status_of(open, now + "Host: evil.example\r\n\r\n"), HasSubstr(" 421 "));
  ServerOptions options;
  options.password = "secret";
  const ServerRig keyed(options);
  EXPECT_THAT(status_of(keyed, old + "Authorization: Bearer secret\r\n\r\n"), HasSubstr(" 200 "));
}

}  // namespace
}  // namespace fulmar::testing
