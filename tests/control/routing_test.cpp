// Relaying and routing: through the control plane to fake workers and back.
#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>

#include "control/control_rig.h"
#include "control/control_routes.h"
#include "net/raw_socket.h"
#include "net/sse.h"

namespace fulmar::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

using Routing = ControlRig;

TEST_F(Routing, ProxyPassesEverythingButHopByHopHeaders) {
  begin();
  const std::string id = start_ready("m.pth");
  Headers headers;
  headers.add("X-Mine", "1");
  headers.add("Authorization", "Bearer None");
  headers.add("TE", "trailers");
  const HttpResponse response = ask("PATCH", "/api/workers/" + id + "/proxy/echo?a=%20b&c", "body", headers);
  EXPECT_EQ(response.status, 200);
  const auto echo = parse_json(response.body);
  ASSERT_TRUE(echo.ok());
  EXPECT_EQ(echo->find("method")->as_string(), "PATCH");
  EXPECT_EQ(echo->find("target")->as_string(), "/echo?a=%20b&c");
  EXPECT_EQ(echo->find("body")->as_string(), "body");
  const JsonValue& seen = *echo->find("headers");
  EXPECT_EQ(seen.find("X-Mine")->as_string(), "1");
  EXPECT_EQ(seen.find("Authorization")->as_string(), "Bearer None");
  EXPECT_EQ(seen.find("TE"), nullptr);
  EXPECT_EQ(ask("GET", "/api/workers/" + id + "/proxy/none").body, R"({"detail":"Not Found"})");
  EXPECT_EQ(ask("GET", "/api/workers/" + id + "/proxy/full").status, 503)
      << "a worker's own 503 is passed on";
}

TEST_F(Routing, TheWorkerLearnsTheClientFromTheControlPlaneAlone) {
  options_.trusted_proxies = read_networks({"127.0.0.1"}).value();
  begin();
  const std::string id = start_ready("m.pth");
  Headers headers;
  headers.add("X-Forwarded-For", "6.6.6.6, 1.1.1.1");
  headers.add("Fulmar-Client-Proof", "00");
  const auto relayed = parse_json(ask("POST", "/api/workers/" + id + "/proxy/echo", "", headers).body);
  EXPECT_EQ(relayed->find("client")->as_string(), "1.1.1.1");
  const auto asked = parse_json(fetch("POST", endpoint_of(worker(id)->spec) + "/echo", headers)->body);
  EXPECT_EQ(asked->find("client")->as_string(), "127.0.0.1") << "the worker trusts no other peer";
}

TEST_F(Routing, EventsArriveOneByOneWhileTheAnswerRuns) {
  begin();
  const std::string id = start_ready("m.pth");
  Watched stream(server_->port(), "/api/workers/" + id + "/proxy/v1/completions",
                 R"({"prompt":"x","max_tokens":20,"pace_ms":20,"stream":true})");
  ASSERT_TRUE(eventually([&] { return !stream.chunks().empty(); }));
  EXPECT_FALSE(stream.ended());
  ASSERT_TRUE(eventually([&] { return stream.ended(); }));
  EXPECT_TRUE(stream.fine());
  const auto chunks = stream.chunks();
  ASSERT_EQ(chunks.size(), 21u);
  for (const std::string& chunk : chunks) EXPECT_THAT(chunk, EndsWith("\n\n"));
  EXPECT_EQ(chunks.back(), kSseDone);
}

TEST_F(Routing, ALeavingClientCancelsAtTheWorker) {
  begin();
  const std::string id = start_ready("m.pth");
  Watched stream(server_->port(), "/api/workers/" + id + "/proxy/v1/completions",
                 R"({"prompt":"x","max_tokens":100000,"pace_ms":5,"stream":true})");
  ASSERT_TRUE(eventually([&] { return !stream.chunks().empty(); }));
  stream.cancel();
  EXPECT_TRUE(eventually([&] {
    return ask("GET", "/api/workers/" + id + "/proxy/v1/queue/status")
               .body.find(R"("cancelled_requests":1)") != std::string::npos;
  }));
  EXPECT_TRUE(eventually([&] { return worker(id)->in_flight->load() == 0; }));
}

TEST_F(Routing, ADyingWorkerCutsTheStream) {
  begin();
  const std::string id = start_ready("m.pth");
  Watched stream(server_->port(), "/v1/completions",
                 R"({"prompt":"x","max_tokens":100000,"pace_ms":5,"stream":true})");
  ASSERT_TRUE(eventually([&] { return !stream.chunks().empty(); }));
  ::kill(worker(id)->pid, SIGKILL);
  ASSERT_TRUE(eventually([&] { return stream.ended(); }));
  EXPECT_FALSE(stream.fine()) << "a broken answer must not look like a short one";
}

TEST_F(Routing, ByModel) {
  begin();
  start_ready("one.pth");
  start_ready("two.pth");
  for (const std::string name : {"one", "two", "one"}) {
    EXPECT_EQ(served_by(ask("POST", "/v1/completions", R"({"model":")" + name + R"(","prompt":"x"})")), name);
  }
  const HttpResponse list = ask("GET", "/v1/models");
  EXPECT_EQ(list.body, R"({"object":"list","data":[{"id":"one"},{"id":"two"}]})");
  EXPECT_EQ(ask("GET", "/v1/models/two").body, R"({"id":"two"})");
  EXPECT_EQ(ask("GET", "/v1/models/three").status, 404);
}

TEST_F(Routing, WhatIsOneWorkersBusinessIsRefusedByName) {
  begin();
  start_ready("a.pth");
  const HttpResponse refused = ask("POST", "/loadmodel", "{}");
  EXPECT_EQ(refused.status, 404);
  EXPECT_THAT(refused.body, HasSubstr("/api/workers/ID/proxy/loadmodel"));
}

TEST_F(Routing, AnUnansweredRequestGoesToTheNextWorker) {
  begin();
  start_ready("a.full.pth");
  start_ready("b.pth");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(served_by(ask("POST", "/v1/completions", R"({"prompt":"x"})")), "b");
}

// What a worker was sent it may have run: a second run elsewhere would be one too many.
TEST_F(Routing, ARequestThatReachedADyingWorkerIsNotRunTwice) {
  begin();
  const std::string ids[] = {start_ready("a.pth"), start_ready("b.pth")};
  const HttpResponse response = ask("POST", "/v1/completions", R"({"prompt":"crash"})");
  EXPECT_EQ(response.status, 502) << response.body;
  EXPECT_THAT(response.body, HasSubstr(R"("code":"worker_lost")"));
  const auto ended = [&] {
    return std::count_if(std::begin(ids), std::end(ids),
                         [&](const std::string& id) { return worker(id)->phase == WorkerPhase::exited; });
  };
  EXPECT_TRUE(eventually([&] { return ended() == 1; }));
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x"})").status, 200) << "the other lives";
}

TEST_F(Routing, AWorkerThatDoesNotAnswerInTimeIs504AndNobodyElseIsAsked) {
  options_.relay_timeout = std::chrono::seconds(1);  // the other questions are answered well before
  begin();
  const std::string ids[] = {start_ready("a.pth"), start_ready("b.pth")};
  const HttpResponse response = ask("POST", "/v1/completions", R"({"prompt":"silent"})");
  EXPECT_EQ(response.status, 504) << response.body;
  EXPECT_THAT(response.body, HasSubstr(R"("code":"worker_timeout")"));
  int asked = 0;
  for (const std::string& id : ids) {
    const std::string queue = ask("GET", "/api/workers/" + id + "/proxy/v1/queue/status").body;
    asked += queue.find(R"("total_active":1)") != std::string::npos;
  }
  EXPECT_EQ(asked, 1);
}

TEST_F(Routing, LongAnswersArriveWholeAtAReaderThatLags) {
  begin();
  const std::string id = start_ready("m.pth");
  constexpr size_t kBytes = size_t{70} << 20;
  for (const std::string form : {"", "&chunked=1"}) {
    RawSocket reader(server_->port());
    reader.send("GET /api/workers/" + id + "/proxy/long?bytes=" + std::to_string(kBytes) + form +
                " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(reader.read_until("\r\n\r\n"), HasSubstr(" 200 "));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // lags behind; what is sent waits for it
    size_t received = 0;
    for (std::string chunk = reader.read_chunk(); !chunk.empty(); chunk = reader.read_chunk()) {
      received += chunk.size();
    }
    EXPECT_EQ(received, kBytes) << form;
  }
  EXPECT_EQ(ask("GET", "/api/workers/" + id + "/proxy/long?bytes=1000").headers.get("Content-Length"),
            "1000");
}

TEST_F(Routing, PagesOfOtherSitesCannotStartOrStopWorkers) {
  begin();
  const std::string id = start_ready("m.pth");
  const std::string own = "http://" + server_->address();
  const struct {
    const char* name;
    std::string value;
    bool passes;
  } kCases[] = {{"Sec-Fetch-Site", "cross-site", false},
                {"Sec-Fetch-Site", "same-site", false},
                {"Sec-Fetch-Site", "same-origin", true},
                {"Sec-Fetch-Site", "none", true},
                {"Origin", "https://elsewhere.example", false},
                {"Origin", "null", false},
                {"Origin", own, true}};
  for (const auto& each : kCases) {
    Headers headers;
    headers.add(each.name, each.value);
    headers.add("Content-Type", "text/plain");
    const std::string body = R"({"model_path":")" + model("other.pth") + "\"}";
    const int wanted = each.passes ? 200 : 403;
    EXPECT_EQ(ask("POST", "/api/workers/start", body, headers).status, wanted)
        << each.name << " " << each.value;
    EXPECT_EQ(ask("POST", "/api/workers/" + id + "/proxy/echo", "{}", headers).status, wanted) << each.value;
    EXPECT_EQ(ask("GET", "/api/workers", {}, headers).status, 200) << each.value;
  }
  Headers elsewhere;
  elsewhere.add("Sec-Fetch-Site", "cross-site");
  EXPECT_EQ(ask("POST", "/api/workers/" + id + "/stop", {}, elsewhere).status, 403);
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x"})", elsewhere).status, 200)
      << "generation is open to pages of any site, as everywhere";
}

TEST_F(Routing, CredentialsThatABrowserAddsByItselfDoNotCountForOtherSites) {
  options_.password = options_.supervisor.password = "p";
  begin();
  Headers basic;
  basic.add("Authorization", "Basic dTpw");
  start_ready("m.pth", "", basic);
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x"})", basic).status, 200);
  basic.add("Sec-Fetch-Site", "cross-site");
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x"})", basic).status, 401);
  EXPECT_EQ(ask("GET", "/", {}, basic).status, 200) << "a link from elsewhere opens the dashboard";
  Headers bearer;
  bearer.add("Authorization", "Bearer p");
  bearer.add("Sec-Fetch-Site", "cross-site");
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x"})", bearer).status, 200);
}

TEST_F(Routing, NoLargeBodyIsTakenBeforeTheKey) {
  options_.password = options_.supervisor.password = "p";
  begin();
  const std::string large = R"({"password":"p","prompt":")" + std::string(2 << 20, 'x') + "\"}";
  EXPECT_EQ(ask("POST", "/v1/completions", large).status, 413);
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"password":"p","prompt":"x"})").status, 503) << "no worker";
  Headers key;
  key.add("Authorization", "Bearer p");
  EXPECT_EQ(ask("POST", "/v1/completions", large, key).status, 503) << "no worker";
}

// The parsing thread is held up and its queue full: large bodies are refused, and nobody else notices.
TEST(LargeBodies, AreParsedApartFromConnections) {
  std::promise<void> held, go_on;
  Supervisor supervisor(SupervisorOptions{});
  HttpClient client;
  JobThread parsing("bodies", 1);
  parsing.post([&, go = go_on.get_future().share()] {
    held.set_value();
    go.wait();
  });
  held.get_future().wait();
  parsing.post([] {});
  ControlService service{.password = "",
                         .models_dir = "",
                         .supervisor = supervisor,
                         .client = client,
                         .parsing = parsing,
                         .relay_timeout = std::chrono::seconds(1)};
  auto server = HttpServer::start({.port = 0, .threads = 1}, [&](std::shared_ptr<Exchange> exchange) {
    handle_control_request(service, std::move(exchange));
  });
  ASSERT_TRUE(server.ok());
  const auto ask = [&](size_t length) {
    const auto answer = fetch("POST", "http://" + (*server)->address() + "/v1/completions", {},
                              R"({"prompt":")" + std::string(length, 'x') + "\"}");
    return answer.ok() ? answer->body : answer.error().text;
  };
  EXPECT_THAT(ask(200 << 10), HasSubstr("queue_full"));
  EXPECT_THAT(ask(1 << 10), Not(HasSubstr("queue_full")));
  go_on.set_value();
  parsing.finish();
  (*server)->stop();
}

TEST_F(Routing, WithoutAWorkerTheAnswerSaysSo) {
  begin();
  const HttpResponse response = ask("POST", "/v1/chat/completions", "{}");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.get("Retry-After"), "1");
  EXPECT_THAT(response.body, HasSubstr("unavailable_error"));
  EXPECT_EQ(ask("GET", "/ready").status, 503);
  EXPECT_EQ(ask("GET", "/health").body, R"({"status":"ok","workers":0,"ready":0})");
}

TEST_F(Routing, EveryDoorIsClosedWithAPassword) {
  options_.password = options_.supervisor.password = "p";
  begin();
  Headers key;
  key.add("Authorization", "Bearer p");
  for (const char* target :
       {"/", "/api/workers", "/api/system", "/api/history", "/api/models", "/assets/dashboard.js"}) {
    const HttpResponse response = ask("GET", target);
    EXPECT_EQ(response.status, 401) << target;
    EXPECT_THAT(response.headers.get("WWW-Authenticate"), testing::StartsWith("Basic")) << target;
    EXPECT_EQ(ask("GET", target, {}, key).status, 200) << target;
  }
  EXPECT_EQ(ask("POST", "/api/workers/start", "{}").status, 401);
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x"})").status, 401);
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x","password":"p"})").status, 503) << "no worker";
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("OPTIONS", "/api/workers").status, 204);
}

TEST_F(Routing, AnswersCarryCorsAndKnowTheirMethods) {
  begin();
  EXPECT_EQ(ask("GET", "/api/system").headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(ask("GET", "/nowhere").status, 404);
  const HttpResponse wrong = ask("PUT", "/api/workers");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.get("Allow"), "GET");
  EXPECT_THAT(ask("GET", "/api/system").body, HasSubstr(R"("python":{"version":")"));
  EXPECT_EQ(ask("GET", "/").status, 200);
}

TEST_F(Routing, ManyStreamsAtOnce) {
  begin();
  start_ready("a.pth");
  start_ready("b.pth");
  std::vector<std::unique_ptr<Watched>> streams;
  for (int i = 0; i < 100; ++i) {
    streams.push_back(std::make_unique<Watched>(
        server_->port(), "/v1/completions", R"({"prompt":"x","max_tokens":10,"pace_ms":5,"stream":true})"));
  }
  for (const auto& stream : streams) {
    ASSERT_TRUE(eventually([&] { return stream->ended(); }));
    EXPECT_TRUE(stream->fine());
    EXPECT_EQ(stream->chunks().size(), 11u);
  }
}

}  // namespace
}  // namespace fulmar::test
