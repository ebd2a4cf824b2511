// What is one owner's no other sees or touches: requests, sessions, and how prompts begin.
#include <gtest/gtest.h>

#include "support/tiny_engine.h"

namespace fulmar::testing {
namespace {

const Owner kAlice{.name = "alice"}, kBob{.name = "bob"};
const Owner kStranger{.name = std::string(kNobody)};

class Owners : public ::testing::Test {
 protected:
  RowLog run(const Owner& owner, Ask ask) { return submit(owner, std::move(ask))->finished().at(0); }

  std::shared_ptr<RecordingListener> submit(const Owner& owner, Ask ask, std::string id = {}) {
    auto listener = std::make_shared<RecordingListener>();
    ask.request_id = id.empty() ? "request-" + std::to_string(++requests_) : id;
    Request request{.owner = owner.name, .rows = {}, .listener = listener, .resumable = true};
    request.rows.push_back(std::move(ask));
    EXPECT_TRUE(tiny_.engine().submit(std::move(request)).ok());
    return listener;
  }
  static bool draws(const std::map<int32_t, RowLog>& rows) {
    return rows.contains(0) && rows.at(0).sampled > 3;
  }
  std::vector<std::string> ids_seen_by(const Owner& owner) {
    std::vector<std::string> ids;
    const auto sessions = tiny_.engine().sessions(owner);
    for (const SessionInfo& session : *sessions) ids.push_back(session.id);
    return ids;
  }

  TinyEngine tiny_;
  int requests_ = 0;
};

TEST_F(Owners, OneSessionIdIsTwoSessions) {
  const std::string alone = bytes_of(run(kAlice, fresh("my code is 4711", 6)));
  run(kAlice, in_session("s", "my code is 4711"));
  EXPECT_FALSE(*tiny_.engine().has_session(kBob, "s"));
  EXPECT_EQ(bytes_of(run(kBob, in_session("s", "my code is 4711", 6))), alone) << "bob's begins anew";
  EXPECT_EQ(ids_seen_by(kAlice), std::vector<std::string>{"s"});
  EXPECT_EQ(ids_seen_by(kBob), std::vector<std::string>{"s"});
  EXPECT_EQ(ids_seen_by(kStranger).size(), 0u);
  EXPECT_EQ(ids_seen_by(server_itself()).size(), 2u);

  EXPECT_EQ(*tiny_.engine().erase_session(kBob, "s", true), 1);
  EXPECT_TRUE(*tiny_.engine().has_session(kAlice, "s"));
  EXPECT_FALSE(*tiny_.engine().has_session(kBob, "s"));
  EXPECT_EQ(*tiny_.engine().erase_session(server_itself(), "s", true), 0) << "its own of that id";
}

TEST_F(Owners, ExportsAndImportsAreOnesOwn) {
  run(kAlice, in_session("s", "hello"));
  EXPECT_EQ(tiny_.engine().export_session(kBob, "s").error().kind, ErrorKind::not_found);
  const auto blob = tiny_.engine().export_session(kAlice, "s");
  ASSERT_TRUE(blob.ok());
  ASSERT_TRUE(tiny_.engine().import_session(kBob, "s", *blob).ok());
  EXPECT_EQ(tiny_.engine().export_session(kAlice, "s")->turn, blob->turn);
}

TEST_F(Owners, AMissingSessionIsNamedByItsIdAlone) {
  Ask ask = in_session("s", "hello");
  ask.state.must_exist = true;
  const RowLog row = run(kBob, std::move(ask));
  ASSERT_TRUE(row.last->error);
  EXPECT_EQ(row.last->error->text, "session 's' does not exist");
}

TEST_F(Owners, NobodyElseSteersARequest) {
  const auto stream = submit(kAlice, TinyEngine::greedy("go on", 1'000'000), "r");
  ASSERT_TRUE(stream->wait_until(draws));
  Engine& engine = tiny_.engine();
  for (const Owner& other : {kBob, kStranger, Owner{}}) {
    EXPECT_FALSE(engine.cancel(other, "r"));
    EXPECT_EQ(engine.cancel_all(other), 0);
    EXPECT_FALSE(engine.pause(other, "r").ok());
    EXPECT_FALSE(engine.pause(other, "").ok()) << "the newest is the newest of one's own";
  }
  ASSERT_TRUE(engine.pause(kAlice, "").ok());
  for (const Owner& other : {kBob, kStranger, Owner{}}) {
    EXPECT_EQ(engine.resume(other, "r", 5, std::make_shared<RecordingListener>()).error().kind,
              ErrorKind::not_found);
  }
  const auto rest = std::make_shared<RecordingListener>();
  ASSERT_TRUE(engine.resume(kAlice, "r", -1, rest).ok());
  ASSERT_TRUE(rest->wait_until(draws));
  EXPECT_FALSE(engine.cancel(kBob, "r")) << "a resumed request keeps its owner";
  EXPECT_TRUE(engine.cancel(server_itself(), "r"));
  rest->finished();
}

TEST_F(Owners, WhoPausesManyIsRefusedAndNobodyElse) {
  Engine& engine = tiny_.engine();
  const auto pause_one = [&](const Owner& owner, const std::string& id) {
    const auto stream = submit(owner, TinyEngine::greedy("go on", 1'000'000), id);
    EXPECT_TRUE(stream->wait_until(draws));
    const auto paused = engine.pause(owner, id);
    if (!paused.ok()) {
      EXPECT_EQ(paused.error().kind, ErrorKind::resource) << paused.error().text;
      EXPECT_TRUE(engine.cancel(owner, id)) << "what is not paused runs on";
    }
    stream->finished();
    return paused.ok();
  };
  int his = 0;
  while (his < 100 && pause_one(kBob, "his" + std::to_string(his))) ++his;
  EXPECT_EQ(his, 32);
  EXPECT_TRUE(pause_one(kAlice, "hers"));
  EXPECT_FALSE(pause_one(kBob, "more"));
  EXPECT_TRUE(engine.forget_paused(kBob, "his0"));
  EXPECT_FALSE(engine.forget_paused(kAlice, "his1"));
  EXPECT_TRUE(pause_one(kBob, "more")) << "one has gone";
  const auto rest = std::make_shared<RecordingListener>();
  EXPECT_TRUE(engine.resume(kBob, "his1", 1, rest).ok()) << "none is forgotten";
  rest->finished();
}

// Sessions and states of responses alike, where there is no store that keeps what memory lets go.
TEST(OwnersInMemory, WhoHasManySessionsGivesUpOnesOwn) {
  for (const auto& [device, host] : {std::pair<int64_t, int64_t>{2, 4}, {4, 0}, {0, 4}}) {
    SCOPED_TRACE(std::to_string(device) + " on the device, " + std::to_string(host) + " in memory");
    TinyEngine tiny(
        {.slots = 2, .prefill_chunk = 32, .device_sessions = device, .sessions = {.host_capacity = host}});
    const auto turn = [&](const Owner& owner, const std::string& id, bool server_named) {
      auto listener = std::make_shared<RecordingListener>();
      Ask ask = in_session(id, "hello", 1);
      ask.request_id = id;
      ask.state.server_named = server_named;
      Request request{.owner = owner.name, .rows = {}, .listener = listener};
      request.rows.push_back(std::move(ask));
      EXPECT_TRUE(tiny.engine().submit(std::move(request)).ok());
      listener->finished();
    };
    turn(kAlice, "hers", false);
    turn(kAlice, "resp:hers", true);
    for (int i = 0; i < 10; ++i) {
      turn(kBob, "his" + std::to_string(i), false);
      turn(kBob, "resp:his" + std::to_string(i), true);
    }
    EXPECT_TRUE(*tiny.engine().has_session(kAlice, "hers"));
    EXPECT_TRUE(*tiny.engine().has_session(server_itself(), "resp:hers"));
    EXPECT_TRUE(*tiny.engine().has_session(server_itself(), "resp:his9"));
  }
}

// A prompt that another owner has sent looks as if nobody had.
TEST_F(Owners, CachedTokensTellNothingOfOthers) {
  const std::string secret(80, 'x');
  run(kAlice, TinyEngine::greedy(secret + "for alice", 1));
  EXPECT_EQ(run(kBob, TinyEngine::greedy(secret + "for bob", 1)).last->usage.cached_tokens, 0);
  EXPECT_GT(run(kAlice, TinyEngine::greedy(secret + "again", 1)).last->usage.cached_tokens, 0);
  EXPECT_GT(run(kBob, TinyEngine::greedy(secret + "again", 1)).last->usage.cached_tokens, 0);
}

// Nor does a prompt wait for another owner's that begins alike.
TEST_F(Owners, PromptsUnderWayTellNothingOfOthers) {
  const std::string secret(2000, 'x');
  const auto hers = submit(kAlice, TinyEngine::greedy(secret + "for alice", 1));
  const auto his = submit(kBob, TinyEngine::greedy(secret + "for bob", 1));
  const auto hers_too = submit(kAlice, TinyEngine::greedy(secret + "once more", 1));
  EXPECT_EQ(his->finished().at(0).last->usage.cached_tokens, 0);
  EXPECT_GT(hers_too->finished().at(0).last->usage.cached_tokens, 0);
  hers->finished();
}

TEST(OwnersThatShare, FindEachOthersPromptBeginnings) {
  TinyEngine tiny({.slots = 4, .prefill_chunk = 16, .share_prefixes = true});
  const std::string prompt(80, 'x');
  const auto run = [&](const Owner& owner, const std::string& text) {
    auto listener = std::make_shared<RecordingListener>();
    Ask ask = TinyEngine::greedy(text, 1);
    ask.request_id = text;
    Request request{.owner = owner.name, .rows = {}, .listener = listener};
    request.rows.push_back(std::move(ask));
    EXPECT_TRUE(tiny.engine().submit(std::move(request)).ok());
    return listener->finished().at(0).last->usage.cached_tokens;
  };
  EXPECT_EQ(run(kAlice, prompt + "for alice"), 0);
  EXPECT_GT(run(kBob, prompt + "for bob"), 0);
}

}  // namespace
}  // namespace fulmar::testing
