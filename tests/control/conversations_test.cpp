// Conversations stay with the worker that has them.
#include <gmock/gmock.h>

#include <map>

#include "control/control_rig.h"

namespace fulmar::test {
namespace {

using testing::HasSubstr;

using Stays = ControlRig;

TEST_F(Stays, SessionsStickToTheirWorker) {
  begin();
  start_ready("one.pth");
  start_ready("two.pth");
  std::map<std::string, std::string> homes;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      const std::string session = std::to_string(i);
      const std::string home =
          served_by(ask("POST", "/v1/completions", R"({"prompt":"x","session_id":")" + session + "\"}"));
      if (round == 0) homes[session] = home;
      EXPECT_EQ(homes[session], home);
    }
  }
}

// Two workers, of which the one is chosen where nothing says otherwise.
class Conversations : public ControlRig {
 protected:
  void begin_with_two() {
    begin();
    for (const char* name : {"one.pth", "two.pth"}) ids_.push_back(start_ready(name));
    busy_ = std::make_unique<Watched>(server_->port(), at_two("/v1/completions"), R"({"prompt":"silent"})");
    ASSERT_TRUE(eventually([&] { return worker(ids_[1])->in_flight->load() == 1; }));
  }
  std::string at_two(const std::string& target) const {
    return "/api/workers/" + ids_[1] + "/proxy" + target;
  }
  std::string server_of(const std::string& method, const std::string& target, const std::string& body = {},
                        const Headers& headers = {}) const {
    const HttpResponse response = ask(method, target, body, headers);
    return response.status == 200 ? served_by(response) : std::to_string(response.status);
  }

  std::vector<std::string> ids_;
  std::unique_ptr<Watched> busy_;
};

// As after a restart of the control plane: it has placed none of them.
TEST_F(Conversations, ASessionIsFoundWhereItIsHoweverItIsNamed) {
  begin_with_two();
  EXPECT_EQ(server_of("POST", "/v1/completions", R"({"prompt":"x"})"), "one");
  for (const char* session : {"field", "nested", "header", "tree:3"}) {
    ask("PUT", at_two("/v1/sessions/" + std::string(session) + "/state"), "state");
  }
  Headers header;
  header.add("X-RWKV-Session-Id", "header");
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(server_of("POST", "/v1/completions", R"({"prompt":"x","session_id":"field"})"), "two");
    EXPECT_EQ(server_of("POST", "/v1/completions", R"({"prompt":"x","params":{"session_id":"nested"}})"),
              "two");
    EXPECT_EQ(server_of("POST", "/v1/completions", R"({"prompt":"x"})", header), "two");
    EXPECT_EQ(server_of("POST", "/v1/completions", R"({"prompt":"x","session_id":"tree","dialogue_idx":0})"),
              "two");
    EXPECT_EQ(server_of("POST", "/v1/completions", R"({"prompt":"x","session_id":"new"})"), "one");
  }
  EXPECT_EQ(server_of("POST", "/v1/sessions/field/fork", R"({"session_id":"copy"})"), "two");
  EXPECT_EQ(server_of("POST", "/v1/completions", R"({"prompt":"x","session_id":"copy"})"), "two");
  EXPECT_EQ(server_of("GET", "/v1/sessions/copy/state"), "two");
  EXPECT_EQ(server_of("DELETE", "/v1/sessions/copy"), "two");
  EXPECT_EQ(server_of("DELETE", "/v1/sessions/copy"), "404");
}

TEST_F(Conversations, AResponseIsFoundWhereItIs) {
  begin_with_two();
  const std::string id(ask("POST", at_two("/v1/responses"), "{}").headers.get("X-Request-Id"));
  const std::string path = "/v1/responses/" + id;
  EXPECT_EQ(server_of("POST", "/v1/responses", R"({"previous_response_id":")" + id + "\"}"), "two");
  EXPECT_EQ(server_of("GET", path), "two");
  EXPECT_EQ(server_of("GET", path + "/input_items"), "two");
  EXPECT_EQ(server_of("POST", path + "/cancel", "{}"), "two");
  EXPECT_EQ(server_of("DELETE", path), "two");
  EXPECT_EQ(server_of("GET", path), "404");
  EXPECT_EQ(server_of("POST", "/v1/responses", R"({"previous_response_id":"resp_none"})"), "404");
}

TEST_F(Conversations, SessionsOfAllWorkersAreOneList) {
  begin_with_two();
  ask("PUT", at_two("/v1/sessions/b/state"), "state");
  ask("PUT", "/api/workers/" + ids_[0] + "/proxy/v1/sessions/a/state", "state");
  EXPECT_EQ(ask("GET", "/v1/sessions").body,
            R"({"object":"list","data":[{"id":"a"},{"id":"b"}],"has_more":false})");
  EXPECT_EQ(ask("GET", "/v1/sessions?limit=1").body,
            R"({"object":"list","data":[{"id":"a"}],"has_more":true})");
  EXPECT_EQ(ask("GET", "/v1/sessions?after=a").body,
            R"({"object":"list","data":[{"id":"b"}],"has_more":false})");
}

TEST_F(Stays, ASessionIsNotBegunAnewWhereItsWorkerIsFull) {
  begin();
  start_ready("a.pth");
  const std::string full = start_ready("b.full.pth");
  ask("PUT", "/api/workers/" + full + "/proxy/v1/sessions/s/state", "state");
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x","session_id":"s"})").status, 503);
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x","session_id":"t"})").status, 200);
}

// It may have been begun there before, where the worker has a file of sessions.
TEST_F(Stays, ASessionIsNotBegunAnewWhileAWorkerStarts) {
  options_.supervisor.state_dir = folder_.string();
  begin();
  start_ready("a.pth");
  const std::string turn = R"({"prompt":"x","session_id":"s"})";
  start("c.impostor.pth");  // never gets ready
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x","session_id":"new"})").status, 200)
      << "a new worker has no sessions";
  std::ofstream(folder_ / "sessions-b.impostor.db") << "x";
  const std::string starting = start("b.impostor.pth");
  const HttpResponse refused = ask("POST", "/v1/completions", turn);
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("worker_away"));
  EXPECT_EQ(refused.headers.get("Retry-After"), "1");
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x"})").status, 200) << "no session";
  ask("POST", "/api/workers/" + starting + "/stop");
  EXPECT_TRUE(eventually([&] { return worker(starting)->phase == WorkerPhase::exited; }));
  EXPECT_EQ(ask("POST", "/v1/completions", turn).status, 200);
}

TEST_F(Stays, ASessionIsNotBegunAnewWhileAWorkerDoesNotSay) {
  begin();
  start_ready("a.pth");
  start_ready("b.limited.pth");
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x","session_id":"s"})").status, 503);
}

TEST_F(Stays, ASessionOfAWorkerThatDrainsIsNotBegunAnew) {
  begin();
  start_ready("a.pth");
  const std::string other = start_ready("b.pth");
  const std::string at_other = "/api/workers/" + other + "/proxy/v1/";
  ask("PUT", at_other + "sessions/s/state", "state");
  const std::string turn = R"({"prompt":"x","session_id":"s"})";
  EXPECT_EQ(served_by(ask("POST", "/v1/completions", turn)), "b");
  Watched busy(server_->port(), at_other + "completions", R"({"prompt":"silent"})");
  ASSERT_TRUE(eventually([&] { return worker(other)->in_flight->load() == 1; }));
  ask("POST", "/api/workers/" + other + "/drain");
  EXPECT_EQ(ask("POST", "/v1/completions", turn).status, 503);
  EXPECT_EQ(served_by(ask("POST", "/v1/completions", R"({"prompt":"x","session_id":"new"})")), "a");
}

}  // namespace
}  // namespace fulmar::test
