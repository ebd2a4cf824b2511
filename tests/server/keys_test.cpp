// Keys with limits: their file, their accounts, and what clients see of them.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "net/worker_proof.h"
#include "server/core/key_ring.h"
#include "server/core/owner.h"
#include "server/generating_routes.h"
#include "server/routes.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;
using Clock = RateLimit::Clock;
using std::chrono::seconds;

constexpr const char* kSecret = "fmk-secret";

ApiKey key_called(const std::string& name, const std::string& secret = kSecret) {
  ApiKey key;
  key.name = name;
  key.hash = hash_of_key(secret);
  return key;
}

// ---- the file

TEST(ApiKeys, AFileReadsBackAsItWasWritten) {
  ApiKey limited = key_called("alice", "a");
  limited.requests_per_minute = 60;
  limited.tokens_per_minute = 20'000;
  limited.max_rows = 4;
  limited.routes = {"/v1/*", "/health"};
  ApiKey ops = key_called("ops", "o");
  ops.admin = true;
  const std::vector<ApiKey> keys{limited, key_called("bob.2", "b"), ops};
  const auto again = parse_api_keys(format_api_keys(keys));
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(*again, keys);
  EXPECT_EQ(parse_api_keys(format_api_keys({}))->size(), 0u);
}

TEST(ApiKeys, TheFileIsForItsOwnerAlone) {
  const std::string path =
      std::string(::testing::TempDir()) + "/fulmar_keys_" + std::to_string(::getpid()) + ".json";
  ASSERT_TRUE(write_api_keys(path, {key_called("alice")}).ok());
  struct stat facts {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(read_api_keys(path)->size(), 1u);
  std::filesystem::remove(path);
  EXPECT_THAT(read_api_keys(path).error().text, HasSubstr(path));
  EXPECT_THAT(write_api_keys("/nonexistent/keys.json", {}).error().text, HasSubstr("/nonexistent/keys.json"));
}

TEST(ApiKeys, WhatCannotBeUsedIsNamed) {
  const std::string hash = hash_of_key("x");
  const auto entry = [&](const std::string& more) {
    return R"({"name":"a","hash":")" + hash + "\"" + more + "}";
  };
  const struct {
    std::string text;
    const char* names;
  } kCases[] = {
      {"{", "Invalid JSON"},
      {"{}", "'keys' is missing"},
      {R"({"keys":7})", "keys"},
      {R"({"keys":[7]})", "keys[0]: is number 7"},
      {R"({"keys":[{"hash":")" + hash + "\"}]}", "name is ''"},
      {R"({"keys":[{"name":"a b","hash":")" + hash + "\"}]}", "name is 'a b'"},
      {R"({"keys":[{"name":"a","hash":"secret"}]})", "hash of 'a'"},
      {R"({"keys":[)" + entry(R"(,"requests":7)") + "]}", "'requests' is no member"},
      {R"({"keys":[)" + entry(R"(,"max_rows":-1)") + "]}", "max_rows"},
      {R"({"keys":[)" + entry(R"(,"routes":["v1"])") + "]}", "routes holds"},
      {R"({"keys":[)" + entry(R"(,"admin":1)") + "]}", "admin is number 1"},
      {R"({"keys":[)" + entry(R"(,"admin":true,"routes":["/v1/*"])") + "]}",
       "'a' administers and lists routes"},
      {R"({"keys":[)" + entry("") + "," + entry("") + "]}", "keys[1]: the name 'a' is there twice"},
      {R"({"keys":[)" + entry("") + R"(,{"name":"b","hash":")" + hash + "\"}]}", "the key of 'b'"},
      {R"({"keys":[)" + entry("") + R"(,{"name":"b","admin":true,"admin":false}]})",
       "'keys[1]' holds 'admin' twice"},
      {R"({"keys":[],"keys":[]})", "the object holds 'keys' twice"},
      {R"({"keys":[],"key":[]})", "'key' is no member of the file"},
  };
  for (const auto& each : kCases) {
    const auto keys = parse_api_keys(each.text);
    ASSERT_FALSE(keys.ok()) << each.text;
    EXPECT_THAT(keys.error().text, HasSubstr(each.names));
    EXPECT_EQ(keys.error().kind, ErrorKind::invalid);
  }
}

TEST(ApiKeys, MadeKeysDiffer) {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    const auto key = make_key();
    ASSERT_TRUE(key.ok());
    EXPECT_EQ(key->size(), 47u);
    EXPECT_EQ(key->find_first_not_of("fmk-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"),
              std::string::npos);
    keys.insert(*key);
  }
  EXPECT_EQ(keys.size(), 100u);
}

// ---- limits

TEST(RateLimit, RefillsByTheMinute) {
  const Clock::time_point start{};
  RateLimit limit(60, start);
  limit.take(60, start);
  EXPECT_DOUBLE_EQ(limit.wait_for(1, start), 1.0);
  EXPECT_DOUBLE_EQ(limit.wait_for(1, start + seconds(1)), 0.0);
  limit.take(120, start + seconds(1));  // more than is there
  EXPECT_DOUBLE_EQ(limit.wait_for(1, start + seconds(1)), 120.0);
  EXPECT_DOUBLE_EQ(limit.wait_for(1, start + seconds(1000)), 0.0);
  limit.take(60, start + seconds(1000));  // no more than a minute's worth was saved
  EXPECT_GT(limit.wait_for(1, start + seconds(1000)), 0.0);
  RateLimit none(0, start);
  none.take(1e9, start);
  EXPECT_EQ(none.wait_for(1e9, start), 0.0);
}

TEST(RateLimit, AChangeKeepsWhatWasUsed) {
  const Clock::time_point start{};
  RateLimit limit(10, start);
  limit.take(10, start);
  limit.change(100, start);
  EXPECT_EQ(limit.wait_for(90, start), 0.0);
  EXPECT_GT(limit.wait_for(91, start), 0.0);
}

TEST(KeyRing, AReplacedKeyKeepsItsAccountAndARemovedOneIsGone) {
  const Clock::time_point now{};
  KeyRing ring;
  ApiKey alice = key_called("alice", "a");
  alice.requests_per_minute = 1;
  ring.replace({alice, key_called("bob", "b")}, now);
  EXPECT_FALSE(ring.find("a")->admit_request("/v1/models", Grant::unsaid, now));
  alice.hash = hash_of_key("a2");
  ring.replace({alice}, now);
  EXPECT_EQ(ring.find("a"), nullptr);
  EXPECT_EQ(ring.find("b"), nullptr);
  ASSERT_NE(ring.find("a2"), nullptr);
  const auto refused = ring.find("a2")->admit_request("/v1/models", Grant::unsaid, now);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->retry_after, 60);
  EXPECT_EQ(ring.find("a2")->usage().requests, 1);
  EXPECT_EQ(ring.find("a2")->usage().refused, 1);
}

// ---- what clients see

ServerOptions with_keys(std::vector<ApiKey> keys) {
  ServerOptions options;
  options.api_keys = std::move(keys);
  return options;
}

Headers bearer(const std::string& secret) { return header("Authorization", "Bearer " + secret); }

constexpr const char* kPath = "/v1/completions";
constexpr const char* kBody = R"({"prompt":"abc","max_tokens":4})";

TEST(ApiKeys, OpenWhatAPasswordOpensButAdministration) {
  ServerOptions options = with_keys({key_called("alice")});
  options.password = "p";
  const ServerRig rig(options);
  EXPECT_EQ(rig.post(kPath, kBody).status, 401);
  EXPECT_EQ(rig.post(kPath, kBody, bearer("wrong")).status, 401);
  EXPECT_EQ(rig.post(kPath, kBody, bearer(kSecret)).status, 200);
  EXPECT_EQ(rig.post(kPath, R"({"prompt":"abc","password":"fmk-secret"})").status, 200);
  const Reply refused = rig.post("/v1/server/stop", "{}", bearer(kSecret));
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("alice"));
  EXPECT_EQ(rig.post("/v1/server/stop", "{}", bearer("p")).status, 200) << "the password opens everything";
}

TEST(ApiKeys, WithoutAPasswordTheyLockTheServer) {
  const ServerRig rig(with_keys({key_called("alice")}));
  EXPECT_EQ(rig.post(kPath, kBody).status, 401);
  EXPECT_EQ(rig.post(kPath, kBody, bearer(kSecret)).status, 200);
  EXPECT_EQ(rig.get("/health").status, 200);
}

TEST(ApiKeys, RoutesOfAKey) {
  ApiKey narrow = key_called("narrow", "n");
  narrow.routes = {"/v1/models", "/v1/chat/*"};
  ApiKey all = key_called("all", "a");
  all.routes = {"/*", "/v1/*"};
  ApiKey stops = key_called("stops", "s");
  stops.routes = {"/v1/*", "/v1/server/stop"};
  ApiKey ops = key_called("ops", "o");
  ops.admin = true;
  const ServerRig rig(with_keys({narrow, all, stops, ops}));
  EXPECT_EQ(rig.post("/v1/chat/completions", R"({"contents":["A"]})", bearer("n")).status, 200);
  const Reply refused = rig.post(kPath, kBody, bearer("n"));
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body,
              HasSubstr(R"("type":"permission_error","param":null,"code":"route_not_allowed")"));
  EXPECT_EQ(rig.post("/v1/server/stop", "{}", bearer("n")).status, 403);
  EXPECT_EQ(rig.post("/v1/server/stop", "{}", bearer("s")).status, 200) << "listed by its full name";
  EXPECT_EQ(rig.post("/v1/server/stop", "{}", bearer("o")).status, 200);
  EXPECT_EQ(rig.post(kPath, kBody, bearer("a")).status, 200);
  for (const Route& route : routes()) {
    if (route.access != Access::admin) continue;
    const std::string path = path_with(route.path, "x");
    const Reply closed = rig.send(std::string(route.method), path, {}, bearer("a"));
    EXPECT_EQ(closed.status, 403) << path << ": no pattern opens administration";
    EXPECT_NE(rig.send(std::string(route.method), path, {}, bearer("o")).status, 403) << path;
  }
}

TEST(ApiKeys, PatternsThatSeemToAdministerAreTold) {
  for (const std::string pattern : {"/*", "/v1/*", "/v1/server/*", "/v1/admin/*"}) {
    EXPECT_TRUE(covers_administration(pattern)) << pattern;
  }
  for (const std::string other : {"/v1/chat/*", "/v1/server/stop", "/loadmodel"}) {
    EXPECT_FALSE(covers_administration(other)) << other;
  }
}

TEST(ApiKeys, OnlyAnAdministratorActsAsAnotherOwner) {
  ApiKey ops = key_called("ops", "o");
  ops.admin = true;
  const ServerRig rig(with_keys({key_called("alice"), ops}));
  const auto as = [](const std::string& secret, const std::string& owner) {
    Headers headers = bearer(secret);
    headers.add(std::string(kOwnerHeader), owner);
    return headers;
  };
  EXPECT_EQ(rig.post(kPath, kBody, as("o", "alice")).status, 200);
  EXPECT_EQ(rig.post(kPath, kBody, as("o", "who-was-removed")).status, 200);
  EXPECT_EQ(rig.post(kPath, kBody, as("o", "no name")).status, 400);
  EXPECT_EQ(rig.post(kPath, kBody, as(kSecret, "alice")).status, 200);
  EXPECT_EQ(rig.post(kPath, kBody, as(kSecret, "bob")).status, 403);
}

TEST(Owner, OfACaller) {
  ApiKey ops = key_called("ops", "o");
  ops.admin = true;
  KeyRing ring;
  ring.replace({key_called("alice", "a"), ops}, {});
  const Caller alice{true, ring.find("a")}, administrator{true, ring.find("o")}, password{true, nullptr},
      stranger;
  EXPECT_EQ(owner_of(alice, {}).name, "alice");
  EXPECT_FALSE(owner_of(alice, {}).administers);
  for (const Caller& caller : {administrator, password}) {
    EXPECT_EQ(owner_of(caller, {}).name, "");
    EXPECT_TRUE(owner_of(caller, {}).sees("alice"));
    EXPECT_EQ(owner_of(caller, "alice").name, "alice");
    EXPECT_FALSE(owner_of(caller, "alice").sees("")) << "acts as alice and sees no more";
  }
  EXPECT_FALSE(owner_of(stranger, {}).sees(owner_of(stranger, {}).name)) << "nobody sees what is nobody's";
  EXPECT_FALSE(owner_of(stranger, {}).sees(""));
  EXPECT_TRUE(owner_of(alice, {}).may_use(""));
  EXPECT_FALSE(owner_of(alice, {}).sees(""));
  EXPECT_EQ(share_of(alice, "10.0.0.1"), "key alice");
  EXPECT_EQ(share_of(password, "10.0.0.1"), "10.0.0.1");
}

TEST(ApiKeys, RequestsAMinute) {
  ApiKey key = key_called("alice");
  key.requests_per_minute = 2;
  const ServerRig rig(with_keys({key, key_called("bob", "b")}));
  EXPECT_EQ(rig.post(kPath, kBody, bearer(kSecret)).status, 200);
  EXPECT_EQ(rig.post(kPath, kBody, bearer(kSecret)).status, 200);
  const Reply refused = rig.post(kPath, kBody, bearer(kSecret));
  EXPECT_EQ(refused.status, 429);
  const int wait = std::atoi(std::string(refused.headers.get("Retry-After")).c_str());
  EXPECT_GE(wait, 1);
  EXPECT_LE(wait, 30);
  EXPECT_THAT(refused.body,
              HasSubstr(R"("type":"rate_limit_error","param":null,"code":"rate_limit_exceeded")"));
  EXPECT_THAT(refused.body, HasSubstr("'alice' may send 2 requests a minute"));
  EXPECT_EQ(rig.post(kPath, kBody, bearer("b")).status, 200) << "others go on";
  EXPECT_EQ(rig.post(kPath, "{broken", bearer("b")).status, 400);
}

TEST(ApiKeys, TokensAMinuteCountPromptsAndAnswers) {
  ApiKey key = key_called("alice");
  key.tokens_per_minute = 10;
  const ServerRig rig(with_keys({key}));  // each answer has 4 tokens, each prompt here 3
  EXPECT_EQ(rig.post(kPath, kBody, bearer(kSecret)).status, 200);
  EXPECT_EQ(rig.post(kPath, kBody, bearer(kSecret)).status, 200);
  const Reply refused = rig.post(kPath, kBody, bearer(kSecret));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("10 tokens a minute"));
}

TEST(ApiKeys, RowsAtOnce) {
  ApiKey key = key_called("alice");
  key.max_rows = 2;
  ServerRig rig(with_keys({key}));
  const Reply never = rig.post("/v2/chat/completions", R"({"contents":["a","b","c"]})", bearer(kSecret));
  EXPECT_EQ(never.status, 400);
  EXPECT_THAT(never.body, HasSubstr("3 rows; the key 'alice' may have at most 2"));
  rig.engine.hold_after(1);
  std::thread client([&] {
    EXPECT_EQ(rig.post("/v2/chat/completions", R"({"contents":["a","b"]})", bearer(kSecret)).status, 200);
  });
  while (rig.engine.asks().size() < 2) std::this_thread::yield();
  const Reply now = rig.post(kPath, kBody, bearer(kSecret));
  EXPECT_EQ(now.status, 429);
  EXPECT_FALSE(now.headers.get("Retry-After").empty());
  rig.engine.hold_after(-1);
  client.join();
  EXPECT_EQ(rig.post(kPath, kBody, bearer(kSecret)).status, 200) << "rows that are over count no more";
}

TEST(ApiKeys, UsageByKeyIsAMetricForThoseWhoShowOne) {
  ApiKey scraper = key_called("scraper", "s");
  scraper.routes = {"/metrics"};
  const ServerRig rig(with_keys({key_called("alice"), key_called("bob", "b"), scraper}));
  rig.post(kPath, kBody, bearer(kSecret));
  const std::string own = rig.get("/metrics", bearer("b")).body;
  EXPECT_EQ(own.find("alice"), std::string::npos);
  EXPECT_THAT(own, HasSubstr("fulmar_key_requests_total{key=\"bob\"} 0"));
  const std::string text = rig.get("/metrics", bearer("s")).body;
  EXPECT_THAT(text, HasSubstr("fulmar_key_requests_total{key=\"alice\"} 1"));
  EXPECT_THAT(text, HasSubstr("fulmar_key_prompt_tokens_total{key=\"alice\"} 3"));
  EXPECT_THAT(text, HasSubstr("fulmar_key_generated_tokens_total{key=\"alice\"} 4"));
  EXPECT_THAT(text, HasSubstr("fulmar_key_refused_total{key=\"bob\"} 0"));
  EXPECT_EQ(rig.get("/metrics").body.find("alice"), std::string::npos);
}

// Whatever route made it, streamed or whole.
TEST(ApiKeys, WhatIsUnderWayForARemovedKeyEnds) {
  ServerRig rig(with_keys({key_called("bob", "b")}));
  for (const auto& [path, begin] : kBodies) {
    for (const char* more : {"}", ",\"stream\":true}"}) {
      const std::string body = begin.find("stream") == std::string::npos ? begin + more : begin + "}";
      rig.server->replace_keys({key_called("alice"), key_called("bob", "b")});
      rig.engine.hold_after(2);
      const size_t before = rig.engine.asks().size();
      std::thread client([&, path = std::string(path)] {
        EXPECT_THAT(rig.post(path, body, bearer(kSecret)).body,
                    HasSubstr("The key 'alice' is no longer in force"))
            << path << body;
      });
      while (rig.engine.asks().size() == before) std::this_thread::yield();
      rig.server->replace_keys({key_called("bob", "b")});
      rig.engine.hold_after(-1);
      client.join();
      EXPECT_TRUE(rig.engine.wait_idle());
    }
  }
  rig.engine.hold_after(2);
  const size_t before = rig.engine.asks().size();
  std::thread other([&] { EXPECT_EQ(rig.post(kPath, kBody, bearer("b")).status, 200); });
  while (rig.engine.asks().size() == before) std::this_thread::yield();
  rig.server->replace_keys({key_called("bob", "b"), key_called("alice")});
  rig.engine.hold_after(-1);
  other.join();
}

TEST(ApiKeys, AReloadTakesEffectAtOnce) {
  const ServerRig rig(with_keys({key_called("alice")}));
  rig.server->replace_keys({key_called("bob", "b")});
  EXPECT_EQ(rig.post(kPath, kBody, bearer(kSecret)).status, 401);
  EXPECT_EQ(rig.post(kPath, kBody, bearer("b")).status, 200);
}

// A key that opens chats alone may go on with its sessions; so its control plane finds out where they are.
TEST(Keys, ASearchOfTheControlPlaneNeedsNoRouteOfTheKey) {
  ApiKey alice = key_called("alice");
  alice.routes = {"/v1/chat/completions"};
  ServerOptions options;
  options.api_keys = {alice};
  options.worker_token = std::string(64, 'a');
  ServerRig rig(options);
  const auto status = [&](const std::string& method, const std::string& path, const std::string& proof_of) {
    Headers headers = header("Authorization", std::string("Bearer ") + kSecret);
    if (!proof_of.empty())
      headers.set(std::string(kSearchHeader), search_proof(options.worker_token, proof_of));
    return rig.send(method, path, {}, headers).status;
  };
  const std::string list = "/v1/sessions?limit=1&after=a%3A", state = "/v1/sessions/none/state";
  EXPECT_EQ(status("GET", list, ""), 403);
  EXPECT_EQ(status("HEAD", state, ""), 403);
  EXPECT_EQ(status("GET", list, list), 200);
  EXPECT_EQ(status("HEAD", state, state), 404);
  EXPECT_EQ(status("HEAD", state, list), 403) << "a proof is of one target";
  EXPECT_EQ(status("DELETE", "/v1/sessions/none", "/v1/sessions/none"), 403) << "nothing is changed so";
  EXPECT_EQ(status("GET", "/v1/responses/resp_0", "/v1/responses/resp_0"), 403);
  EXPECT_EQ(
      rig.send("GET", list, {}, header(std::string(kSearchHeader), search_proof(options.worker_token, list)))
          .status,
      401)
      << "whose sessions these are the key tells";
}

}  // namespace
}  // namespace fulmar::testing
