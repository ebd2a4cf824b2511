// The work for a request before the engine runs: where it is done, what bounds it, and who ends it.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "base/meter.h"
#include "net/raw_socket.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

using test::RawSocket;
using ::testing::HasSubstr;

void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Reads texts that begin with "endless" until its meter says no.
class EndlessTokenizer : public SmallTokenizer {
 public:
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    if (text.find("endless") == std::string_view::npos) return SmallTokenizer::encode(text, out);
    ++begun;
    try {
      while (true) count_work(1);
    } catch (const WorkEnded&) {
      ++ended;
      throw;
    }
  }
  mutable std::atomic<int> begun{0}, ended{0};
};

constexpr const char* kEndless = R"({"prompt":"endless"})";
constexpr const char* kShort = R"({"prompt":"x"})";
constexpr const char* kPath = "/v1/completions";

struct WorkRig {
  explicit WorkRig(ServerOptions options = {})
      : rig(bounded(std::move(options)), nullptr,
            [this](ServedModel& model) { model.tokenizer = &tokenizer; }) {}

  static ServerOptions bounded(ServerOptions options) {
    if (options.limits.max_request_work == ServerLimits().max_request_work) {
      options.limits.max_request_work = Meter::kNoLimit;
    }
    return options;
  }

  EndlessTokenizer tokenizer;
  ServerRig rig;
};

TEST(Work, BeyondTheLimitIsAClientsMistake) {
  ServerOptions options;
  options.limits.max_request_work = 100'000;
  WorkRig it(options);
  const Reply answer = it.rig.post(kPath, kEndless);
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("more than 100000 steps"));
  EXPECT_THAT(answer.body, HasSubstr("too_much_work"));
  EXPECT_EQ(it.rig.post(kPath, kShort).status, 200);
}

TEST(Work, EndsWhenTheClientLeaves) {
  WorkRig it;
  {
    RawSocket client(it.rig.server->port());
    const std::string body = kEndless;
    client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    wait_until([&] { return it.tokenizer.begun > 0; });
  }
  wait_until([&] { return it.tokenizer.ended > 0; });
}

TEST(Work, EndsWithTheServer) {
  WorkRig it;
  std::thread client([&] { EXPECT_EQ(it.rig.post(kPath, kEndless).status, 503); });
  wait_until([&] { return it.tokenizer.begun > 0; });
  it.rig.server->stop(std::chrono::milliseconds(0));
  client.join();
  EXPECT_EQ(it.tokenizer.ended, 1);
}

// Two of one client's at once would take the pool of two threads.
TEST(Work, OfOneClientLeavesOthersAThread) {
  ServerOptions options;
  options.api_keys = std::vector<ApiKey>{{.name = "one", .hash = hash_of_key("fmk-one")},
                                         {.name = "two", .hash = hash_of_key("fmk-two")}};
  WorkRig it(options);
  std::vector<std::thread> hostile;
  for (int i = 0; i < 4; ++i) {
    // One that comes once the server has ended finds none.
    hostile.emplace_back(
        [&] { (void)fetch("POST", it.rig.url(kPath), header("Authorization", "Bearer fmk-one"), kEndless); });
  }
  wait_until([&] { return it.tokenizer.begun > 0; });
  EXPECT_EQ(it.rig.post(kPath, kShort, header("Authorization", "Bearer fmk-two")).status, 200);
  EXPECT_EQ(it.tokenizer.begun, 1);
  it.rig.server->stop(std::chrono::milliseconds(0));
  for (std::thread& thread : hostile) thread.join();
}

TEST(Work, OfAStrangerIsNotInFrontOfThePassword) {
  ServerOptions options;
  options.password = "secret";
  options.open_translate = true;
  WorkRig it(options);
  std::thread stranger([&] {
    it.rig.post("/translate/v1/batch-translate",
                R"({"source_lang":"en","target_lang":"zh-CN","text_list":["endless"]})");
  });
  wait_until([&] { return it.tokenizer.begun > 0; });
  EXPECT_EQ(it.rig.post(kPath, kShort, header("Authorization", "Bearer secret")).status, 200);
  it.rig.server->stop(std::chrono::milliseconds(0));
  stranger.join();
}

TEST(Work, OnThePoolHoldsUpNoHealthCheck) {
  WorkRig it;
  std::thread client([&] { it.rig.post(kPath, kEndless); });
  wait_until([&] { return it.tokenizer.begun > 0; });
  EXPECT_EQ(it.rig.get("/health").status, 200);
  EXPECT_EQ(it.rig.get("/v1/sessions").status, 200);
  it.rig.server->stop(std::chrono::milliseconds(0));
  client.join();
}

}  // namespace
}  // namespace fulmar::testing
