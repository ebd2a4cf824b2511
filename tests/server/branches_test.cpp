// Session trees, and sessions named by a header, at the HTTP boundary.
#include <thread>

#include "server/native/branch_indices.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

const std::string kPath = "/multi_state/chat/completions";

std::string turn(int64_t from, const std::string& more = {}) {
  return R"({"session_id":"s","contents":["User: a"],"dialogue_idx":)" + std::to_string(from) + more + "}";
}

TEST(Branches, EveryAnswerIsANodeOfItsOwn) {
  ServerRig rig;
  const Reply reply = rig.post(kPath, turn(0));
  EXPECT_EQ(
      steady(reply.body),
      R"({"id":"rwkv7-multi-state","object":"chat.completion","created":1,"model":"rwkv7","choices":[{"index":0,)"
      R"("message":{"role":"assistant","content":"Hello world"},"finish_reason":"stop","stop_reason":0}],)"
      R"("usage":{"prompt_tokens":7,"completion_tokens":4,"total_tokens":11},"dialogue_idx":1})");
  StateLink link = rig.last_ask().state;
  EXPECT_EQ(link.read_session, "s:0");
  EXPECT_EQ(link.write_session, "s:1");
  EXPECT_FALSE(link.must_exist) << "the root is the zero state";

  for (int64_t node = 2; node <= 3; ++node) {  // twice from the same node: two branches
    EXPECT_TRUE(rig.post(kPath, turn(1)).body.ends_with("\"dialogue_idx\":" + std::to_string(node) + "}"));
    link = rig.last_ask().state;
    EXPECT_EQ(link.read_session, "s:1");
    EXPECT_EQ(link.write_session, "s:" + std::to_string(node));
    EXPECT_TRUE(link.must_exist);
    EXPECT_EQ(rig.tokenizer.decode(link.continuing), "\n\nUser: a");
  }
  EXPECT_TRUE(rig.post("/v1/advanced/multi_state", turn(2)).body.ends_with("\"dialogue_idx\":4}"));
}

TEST(Branches, AStreamSaysTheIndexLast) {
  const ServerRig rig;
  const auto events = events_of(rig.post(kPath, turn(0, R"(,"stream":true)")).body);
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events.back(), R"({"object":"multi_state.dialogue_idx","session_id":"s:1","dialogue_idx":1})");
  EXPECT_NE(events[events.size() - 2].find(R"("finish_reason":"stop")"), std::string::npos);
}

TEST(Branches, AMissingNodeIsA404OfItsOwnWords) {
  const ServerRig rig({}, [](const Ask&) {
    return Script{.reason = FinishReason::failed, .error = Error{ErrorKind::not_found, "session gone"}};
  });
  const Reply reply = rig.post(kPath, turn(7));
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.body, R"({"error":"State not found for dialogue_idx=7"})");
}

TEST(Branches, ACancelledTurnTakesNoIndex) {
  ServerRig rig;
  rig.engine.hold_after(0);
  std::thread stopper([&] {
    while (rig.engine.cancel_all({}) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_EQ(rig.post(kPath, turn(0)).body.find("dialogue_idx"), std::string::npos);
  stopper.join();
  ASSERT_TRUE(rig.engine.wait_idle());
  rig.engine.hold_after(-1);
  EXPECT_NE(rig.post(kPath, turn(0)).body.find("\"dialogue_idx\":"), std::string::npos);
}

// Sessions that clients name as they like are branches only where the name is one that a branch would get.
TEST(Branches, IndicesAreThoseThatBranchesGet) {
  EXPECT_EQ(branch_index("t:0", "t"), 0);
  EXPECT_EQ(branch_index("t:2147483647", "t"), kLastBranch);
  for (const char* name : {"t", "t:", "t:x", "t:01", "t:+1", "t:-1", "t:1 ", "t:2147483648", "u:1",
                           "t:9223372036854775807", "t:9223372036854775808", "t:99999999999999999999"}) {
    EXPECT_EQ(branch_index(name, "t"), -1) << name;
  }
}

TEST(Branches, AFullTreeTakesNoBranchAndOverwritesNone) {
  ServerRig rig;
  EXPECT_EQ(rig.post("/v1/chat/completions",
                     R"({"session_id":"s:9223372036854775807","messages":[{"role":"user","content":"a"}]})")
                .status,
            200);
  EXPECT_TRUE(rig.post(kPath, turn(0)).body.ends_with("\"dialogue_idx\":1}"));
  rig.post("/v1/chat/completions",
           R"({"session_id":"s:2147483646","messages":[{"role":"user","content":"a"}]})");
  EXPECT_TRUE(rig.post(kPath, turn(1)).body.ends_with("\"dialogue_idx\":2147483647}"));
  const Reply full = rig.post(kPath, turn(1));
  EXPECT_EQ(full.status, 409);
  EXPECT_NE(full.body.find("2147483647"), std::string::npos) << full.body;
}

TEST(Branches, Errors) {
  const ServerRig rig;
  const std::pair<const char*, const char*> cases[] = {
      {R"({"contents":["a"],"dialogue_idx":0})", R"({"error":"Missing session_id parameter"})"},
      {R"({"contents":["a"],"session_id":"s"})", R"({"error":"Missing dialogue_idx parameter"})"},
      {R"({"contents":["a","b"],"session_id":"s","dialogue_idx":0})",
       R"({"error":"Request must contain exactly one prompt"})"},
      {R"({"session_id":"s","dialogue_idx":0})", R"({"error":"Request must contain exactly one prompt"})"},
      {R"({"contents":["a"],"session_id":"s","dialogue_idx":-1})", nullptr},
      {R"({"contents":["a"],"session_id":"s","dialogue_idx":"x"})", nullptr},
  };
  for (const auto& [body, wanted] : cases) {
    const Reply reply = rig.post(kPath, body);
    EXPECT_EQ(reply.status, 400) << body;
    if (wanted) {
      EXPECT_EQ(reply.body, wanted);
    }
  }
  EXPECT_TRUE(rig.engine.asks().empty());
}

TEST(BranchIndices, AreNotGivenTwiceWhileHeld) {
  const auto indices = std::make_shared<BranchIndices>();
  const auto none = [] { return int64_t{0}; };
  auto one = *indices->take({}, "s", none);
  const auto two = *indices->take({}, "s", none);
  EXPECT_EQ(one->index(), 1);
  EXPECT_EQ(two->index(), 2);
  EXPECT_EQ((*indices->take({}, "t", none))->index(), 1);
  EXPECT_EQ((*indices->take({}, "s", [] { return int64_t{9}; }))->index(), 10);
  one.reset();
  EXPECT_EQ((*indices->take({}, "s", none))->index(), 3);
}

TEST(BranchIndices, AreReadFromTheNamesOfSessions) {
  EXPECT_EQ(branch_index("s:12", "s"), 12);
  EXPECT_EQ(branch_index("a:b:3", "a:b"), 3);
  for (const char* other : {"s", "s:", "s:x", "s:1x", "s:-1", "t:1", "ss:1", "s:99999999999999999999"}) {
    EXPECT_EQ(branch_index(other, "s"), -1) << other;
  }
}

TEST(Sessions, AHeaderNamesOneToo) {
  ServerRig rig;
  Headers header;
  header.set("X-RWKV-Session-Id", "h");
  const std::pair<const char*, const char*> routes[] = {
      {"/state/chat/completions", R"({"contents":["a"])"},
      {"/v1/chat/completions", R"({"contents":["a"])"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}])"},
      {"/openai/v1/chat/completions", R"({"contents":["a"])"}};
  for (const auto& [path, body] : routes) {
    EXPECT_EQ(rig.post(path, std::string(body) + "}", header).status, 200) << path;
    EXPECT_EQ(rig.last_ask().state.write_session, "h") << path;
    EXPECT_EQ(rig.post(path, std::string(body) + R"(,"session_id":"h"})", header).status, 200);
    const Reply other = rig.post(path, std::string(body) + R"(,"session_id":"other"})", header);
    EXPECT_EQ(other.status, 400) << path;
    EXPECT_NE(other.body.find("X-RWKV-Session-Id"), std::string::npos) << other.body;
  }
}

}  // namespace
}  // namespace fulmar::testing
