// The server's own states: loading, without a model, serving, ending; and what failures inside it do to it.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

#include "net/raw_socket.h"
#include "net/worker_proof.h"
#include "server/admin_rig.h"

namespace fulmar::testing {
namespace {

using test::RawSocket;
using ::testing::HasSubstr;

constexpr const char* kPath = "/v1/completions";
constexpr const char* kBody = R"({"prompt":"x"})";

void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Lifecycle, HealthTellsLoadingFromNoModel) {
  ServerOptions options;
  options.loading = true;
  ServerRig rig(options);
  EXPECT_EQ(rig.get("/health").status, 200);
  rig.models.remove("tiny-rwkv7");
  const Reply loading = rig.get("/health");
  EXPECT_EQ(loading.status, 503);
  EXPECT_EQ(loading.body, R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})");
  rig.server->loaded();
  const Reply without = rig.get("/health");
  EXPECT_EQ(without.status, 503);
  EXPECT_THAT(without.body, HasSubstr("No model loaded"));
}

// A store that is away when asked to sweep, until it is back.
class SweptStore final : public SessionStore {
 public:
  explicit SweptStore(std::shared_ptr<std::atomic<bool>> away) : away_(std::move(away)) {}
  Result<std::optional<StateBlob>> load(const std::string&, const std::string&) override {
    return std::optional<StateBlob>();
  }
  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    return std::vector<Result<bool>>(writes.size(), true);
  }
  Result<int64_t> erase(const std::string&, const std::string&, bool) override { return int64_t{0}; }
  Result<int64_t> newest_turn(const std::string&, const std::string&) override { return int64_t{0}; }
  Result<std::vector<StoredSession>> list(const std::string&, const SessionQuery&) override {
    return std::vector<StoredSession>();
  }
  Result<std::vector<StoredSession>> sweep(const std::string&) override {
    if (*away_) return Error{ErrorKind::unavailable, "the disk has gone"};
    return std::vector<StoredSession>();
  }

 private:
  const std::shared_ptr<std::atomic<bool>> away_;
};

TEST(Lifecycle, HealthAndMetricsTellOfAStoreThatFails) {
  const auto away = std::make_shared<std::atomic<bool>>(true);
  ServerRig rig;
  const SessionLadder ladder("f", std::make_unique<SweptStore>(away),
                             {.store = {.sweep_every = std::chrono::milliseconds(1)}});
  rig.engine.share_ladder(&ladder);
  while (ladder.store_health().trouble.empty()) std::this_thread::yield();
  const Reply degraded = rig.get("/health");
  EXPECT_EQ(degraded.status, 200) << "requests are answered as before";
  EXPECT_NE(degraded.body.find(R"("status":"degraded")"), std::string::npos) << degraded.body;
  EXPECT_NE(degraded.body.find("the disk has gone"), std::string::npos) << degraded.body;
  EXPECT_NE(rig.get("/metrics").body.find("fulmar_state_store_up 0"), std::string::npos);
  *away = false;
  while (!ladder.store_health().trouble.empty()) std::this_thread::yield();
  EXPECT_NE(rig.get("/health").body.find(R"("status":"ok")"), std::string::npos);
  EXPECT_NE(rig.get("/metrics").body.find("fulmar_state_store_up 1"), std::string::npos);
  rig.engine.share_ladder(nullptr);
}

TEST(Lifecycle, WhileItEndsHealthIs503AndOpenConnectionsAreAnswered) {
  ServerOptions options;
  options.drain_delay = std::chrono::milliseconds(1000);
  ServerRig rig(options);
  RawSocket kept(rig.server->port()), watching(rig.server->port());
  const auto ask = [](RawSocket& connection, const std::string& head, const std::string& body) {
    connection.send(head + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                    "\r\n\r\n" + body);
    return connection.read_response();
  };
  for (RawSocket* connection : {&kept, &watching}) {
    EXPECT_THAT(ask(*connection, "GET /health", "").first, HasSubstr(" 200 "));
  }
  const auto begun = std::chrono::steady_clock::now();
  std::thread ending([&] { EXPECT_TRUE(rig.server->stop(std::chrono::seconds(30))); });
  // New connections are taken during the delay; each says that it ends.
  wait_until([&] {
    const auto answer = fetch("GET", rig.url("/health"));
    return !answer.ok() || answer->status == 503;
  });
  EXPECT_THAT(ask(watching, "GET /health", "").first, HasSubstr(" 503 "));
  const auto [head, body] = ask(kept, "POST /v1/completions", kBody);
  EXPECT_THAT(head, HasSubstr(" 200 "));
  EXPECT_THAT(head, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(body, HasSubstr("Hello world"));
  EXPECT_EQ(kept.read_to_end(), "");
  ending.join();
  EXPECT_GE(std::chrono::steady_clock::now() - begun, options.drain_delay);
}

TEST(Lifecycle, BusyClientsOnKeptConnectionsLoseNothing) {
  ServerRig rig;
  constexpr int kClients = 8;
  std::atomic<int> answered{0}, cut{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      RawSocket socket(rig.server->port());
      const std::string body = kBody;
      for (bool open = true; open;) {
        if (!socket.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                         std::to_string(body.size()) + "\r\n\r\n" + body)) {
          cut++;
          return;
        }
        const auto [head, text] = socket.read_response();
        if (head.find(" 200 ") == std::string::npos) {
          cut++;
          return;
        }
        answered++;
        open = head.find("Connection: close") == std::string::npos;
      }
    });
  }
  wait_until([&] { return answered > 10 * kClients; });
  EXPECT_TRUE(rig.server->stop(std::chrono::seconds(30)));
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(cut, 0);
}

// ---- failures inside

// Fails as memory does, on words that ask for it.
class FailingTokenizer : public SmallTokenizer {
 public:
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    if (text.starts_with("no memory")) throw std::bad_alloc();
    if (text.starts_with("surprise")) throw std::runtime_error("surprise");
    SmallTokenizer::encode(text, out);
  }
};

class FailingRig : public ServerRig {
 public:
  FailingRig() {
    auto facts = std::make_shared<ServedModel>(*model);
    facts->tokenizer = &failing_;
    models.add(facts);
  }

 private:
  FailingTokenizer failing_;
};

TEST(Failures, AnExceptionIsAnAnswerOnEveryThread) {
  const FailingRig rig;
  const std::string small, large(200 << 10, 'x');  // the latter is parsed on a thread of its own
  for (const std::string& padding : {small, large}) {
    const auto post = [&](const std::string& words) {
      return rig.post("/tokenize", R"({"content":")" + words + R"(","padding":")" + padding + "\"}");
    };
    const Reply memory = post("no memory");
    EXPECT_EQ(memory.status, 503);
    EXPECT_THAT(memory.body, HasSubstr("Out of memory"));
    const Reply surprise = post("surprise");
    EXPECT_EQ(surprise.status, 500);
    EXPECT_THAT(surprise.body, HasSubstr("Internal error"));
    EXPECT_EQ(post("fine").status, 200);
  }
}

class FailingAdmin : public NamesOnly {
 public:
  using NamesOnly::NamesOnly;
  Status load_model(const ModelLoad&) override { throw std::bad_alloc(); }
};

TEST(Failures, AnExceptionOfAdministrationIsAnAnswer) {
  ServerRig rig;
  FailingAdmin admin(rig);
  rig.server.reset();
  auto started = Server::start({.port = 0}, rig.models, &admin);
  ASSERT_TRUE(started.ok());
  rig.server = std::move(*started);
  EXPECT_EQ(rig.post("/loadmodel", R"({"model_filename":"m"})").status, 503);
  EXPECT_EQ(rig.get("/health").status, 200);
  rig.server.reset();
}

// ---- what a worker of a control plane says

TEST(WorkerProof, HealthAnswersAChallenge) {
  ServerOptions options;
  options.worker_token = "token";
  const ServerRig worker(options), other;
  Headers challenge;
  const std::string text = random_hex();
  challenge.add(std::string(kChallengeHeader), text);
  const std::string proof(worker.get("/health", challenge).headers.get(kProofHeader));
  EXPECT_EQ(proof, worker_proof("token", text));
  EXPECT_EQ(proof.size(), 64u);
  EXPECT_NE(proof, worker_proof("token", random_hex()));
  EXPECT_NE(proof, worker_proof("another", text));
  EXPECT_EQ(worker.get("/health").headers.get(kProofHeader), "");
  EXPECT_EQ(other.get("/health", challenge).headers.get(kProofHeader), "");
}

TEST(WorkerProof, HealthProvesNothingElse) {
  ServerOptions options;
  options.worker_token = "token";
  const ServerRig worker(options);
  Headers challenge;
  challenge.add(std::string(kChallengeHeader), "client 1.1.1.1");  // would be a proof of who the client is
  EXPECT_EQ(worker.get("/health", challenge).headers.get(kProofHeader), "");
}

}  // namespace
}  // namespace fulmar::testing
