// When turns reach the store.
#include <gmock/gmock.h>

#include <atomic>
#include <new>
#include <thread>

#include "cache/session_shelf.h"
#include "cpu/cpu_ops.h"
#include "model/state_pool.h"

namespace fulmar {
namespace {

using std::chrono::hours;
using Clock = std::chrono::steady_clock;

// Remembers the newest turn of each session.
class MemoryStore : public SessionStore {
 public:
  Result<std::optional<StateBlob>> load(const std::string&, const std::string& id) override {
    const auto found = states.find(id);
    return found == states.end() ? std::optional<StateBlob>() : std::optional(found->second);
  }
  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    if (on_store) on_store();
    if (throws) throw std::bad_alloc();
    if (away > 0) return std::vector<Result<bool>>(writes.size(), still_away());
    std::vector<Result<bool>> outcomes;
    for (const SessionWrite& write : writes) {
      tried.push_back(write.id);
      if (fails || write.id == fails_for) {
        outcomes.emplace_back(Error{ErrorKind::io, "no space left"});
        continue;
      }
      const bool late = states.contains(write.id) && states[write.id].turn >= write.blob->turn;
      outcomes.emplace_back(!refuses && !late);
      if (*outcomes.back()) states[write.id] = *write.blob;
    }
    stored = true;
    return outcomes;
  }
  Result<int64_t> erase(const std::string&, const std::string& id, bool and_branches) override {
    if (throws) throw std::bad_alloc();
    if (fails) return Error{ErrorKind::io, "no space left"};
    const SessionRange range{id, and_branches};
    return static_cast<int64_t>(
        std::erase_if(states, [&](const auto& one) { return range.covers(one.first); }));
  }
  void stored_elsewhere(const std::string& id) { states[id].turn = 9; }
  Result<int64_t> newest_turn(const std::string&, const std::string& id) override {
    if (on_question) on_question();
    if (throws) throw std::bad_alloc();
    return states.contains(id) ? states[id].turn : 0;
  }
  Result<std::vector<StoredSession>> list(const std::string&, const SessionQuery& query) override {
    if (on_list) std::exchange(on_list, nullptr)();
    std::vector<StoredSession> sessions;
    for (const auto& [id, blob] : states) {
      if (!query.covers(id) || static_cast<int64_t>(sessions.size()) == query.limit) continue;
      sessions.push_back({id, 0, blob.tokens, blob.turn});
    }
    return sessions;
  }
  Result<std::vector<StoredSession>> sweep(const std::string&) override {
    if (sweeps_fail) return Error{ErrorKind::unavailable, "away"};
    std::lock_guard lock(swept_mutex);
    for (const StoredSession& session : swept) states.erase(session.id);
    return std::exchange(swept, {});
  }
  void to_sweep(std::vector<StoredSession> sessions) {
    std::lock_guard lock(swept_mutex);
    swept = std::move(sessions);
  }

  void try_at_once() override { pauses = false; }
  // As a store that is left in peace after it did not answer.
  Error still_away() {
    if (!std::exchange(pauses, true)) away--;
    return {ErrorKind::unavailable, "does not answer"};
  }

  std::map<std::string, StateBlob> states;
  std::vector<std::string> tried;
  int away = 0;  // how many tries it does not answer
  bool pauses = false;
  std::string fails_for;
  std::mutex swept_mutex;
  std::vector<StoredSession> swept;
  std::atomic<bool> sweeps_fail = false;
  std::atomic<bool> stored = false, fails = false, refuses = false, throws = false;
  std::function<void()> on_question, on_store, on_list;
};

// A ladder with a shelf of one slot on the CPU; slot 0 is a row's.
class SessionWrites : public ::testing::Test {
 protected:
  void open(LadderOptions options = {.flush_after = hours(2)}, std::vector<int64_t> slots = {1}) {
    auto states = StatePool::make(
        *ops_, {.n_layer = 1, .n_embd = 64, .n_head = 1, .head_size = 64, .fields = kShiftsAndWkv}, 2);
    ASSERT_TRUE(states.ok());
    states_ = std::make_unique<StatePool>(std::move(*states));
    auto owned = std::make_unique<MemoryStore>();
    store_ = owned.get();
    ladder_ = std::make_shared<SessionLadder>("f", std::move(owned), std::move(options));
    shelf_ = std::make_unique<SessionShelf>(*states_, std::move(slots), ladder_);
  }
  void commit(const std::string& id, int64_t turn) {
    const SessionClaimPtr claim = ladder_->claim(id);
    ASSERT_NE(claim, nullptr);
    ASSERT_TRUE(shelf_->commit(*claim, 0, {5 * turn, turn}).ok());
    ladder_->release(claim);
  }
  void end() {
    shelf_.reset();
    ladder_.reset();
  }

  const std::unique_ptr<Ops> ops_ = make_cpu_ops({.threads = 1});
  std::unique_ptr<StatePool> states_;
  MemoryStore* store_ = nullptr;
  std::shared_ptr<SessionLadder> ladder_;
  std::unique_ptr<SessionShelf> shelf_;
};

TEST_F(SessionWrites, TalkingFastDoesNotPutThemOff) {
  open();
  commit("a", 1);
  const Clock::time_point after_first = Clock::now();
  while (Clock::now() == after_first) continue;
  commit("a", 2);
  EXPECT_TRUE(shelf_->tick(after_first).has_value()) << "nothing is due yet";
  EXPECT_EQ(shelf_->tick(after_first + hours(1)), std::nullopt) << "the first turn's time is over";
  ladder_->flush();
  EXPECT_EQ(store_->states["a"].turn, 2);
}

// A turn that the store refuses is nobody's: looking for it drops it, also in the midst of an erasure.
TEST_F(SessionWrites, ARefusedTurnCanBeErased) {
  open();
  store_->refuses = true;
  commit("a", 1);
  commit("b", 1);  // pushes "a" off the shelf
  shelf_->tick(Clock::now() + hours(3));
  ladder_->flush();
  store_->stored_elsewhere("a");
  EXPECT_EQ(*ladder_->erase({"a", false}), 1);
  EXPECT_FALSE(*ladder_->contains("a"));
  EXPECT_EQ(*ladder_->erase({"b", true}), 1);
  EXPECT_FALSE(*ladder_->contains("b"));
}

// Another session's turn moves it down a level while an erasure asks the store what it has: from the shelf to
// host memory, or from there to its way to the store.
TEST_F(SessionWrites, AnErasureCountsASessionThatMovesMeanwhile) {
  for (const int64_t host : {0, 1}) {
    for (const int others_before : {0, 1}) {
      open({.host_capacity = host, .flush_after = hours(2)});
      commit("a", 1);
      for (int i = 0; i < others_before; ++i) commit("b" + std::to_string(i), 1);
      store_->on_list = [this] { commit("c", 1); };
      EXPECT_EQ(*ladder_->erase({"a", false}), 1) << host << others_before;
      EXPECT_FALSE(*ladder_->contains("a"));
      EXPECT_EQ(*ladder_->erase({"a", false}), 0);
      end();
    }
  }
}

TEST_F(SessionWrites, WhatAFailingStoreDidNotGetIsCounted) {
  int64_t lost = 0;
  open({.flush_after = hours(2), .on_lost = [&](int64_t count) { lost += count; }});
  store_->fails = true;
  commit("a", 1);
  commit("b", 1);
  end();
  EXPECT_EQ(lost, 2);
  open({.flush_after = hours(2), .on_lost = [&](int64_t count) { lost += count; }});
  commit("a", 1);
  end();
  EXPECT_EQ(lost, 2) << "a store that works loses nothing";
}

TEST_F(SessionWrites, AnErasedSessionStaysAwayWhileTheStoreFails) {
  open({.host_capacity = 0, .flush_after = hours(2)}, {});
  commit("a", 1);
  commit("a:1", 1);
  ladder_->flush();
  ASSERT_EQ(store_->states.size(), 2u);
  store_->fails = true;
  EXPECT_FALSE(ladder_->erase({"a", true}).ok()) << "it is not erased yet";
  EXPECT_FALSE(*ladder_->contains("a"));
  EXPECT_TRUE(ladder_->list()->empty());
  EXPECT_EQ(*ladder_->read("a:1"), nullptr);
  commit("a", 1);  // a fresh beginning
  EXPECT_EQ(ladder_->list()->size(), 1u);
  store_->fails = false;
  ladder_->flush();
  ladder_->flush();  // the first one may end with the failure before
  ASSERT_EQ(store_->states.size(), 1u);
  EXPECT_TRUE(store_->states.contains("a"));
}

// Its turn is not written back: it went.
TEST_F(SessionWrites, ASessionThatATurnHasJustBegunCountsAsErased) {
  open();
  const SessionClaimPtr claim = ladder_->claim("a:1");
  EXPECT_EQ(*ladder_->erase({"a", false}), 0);
  EXPECT_EQ(*ladder_->erase({"a", true}), 1);
  EXPECT_EQ(*ladder_->erase({"a", true}), 0) << "once";
  ladder_->release(claim);
  EXPECT_EQ(*ladder_->erase({"a:1", false}), 0);
}

// Each erasure is waited for, also one that the failure of another holds up.
TEST_F(SessionWrites, ErasuresBehindOneThatFailsAreToldOfIt) {
  open();
  store_->fails = true;
  for (const char* id : {"a", "b", "c"}) EXPECT_FALSE(ladder_->erase({id, false}).ok());
}

TEST_F(SessionWrites, ATurnBehindAnErasureIsStored) {
  open({.host_capacity = 0, .flush_after = hours(2)}, {});
  for (int64_t turn = 1; turn <= 5; turn++) commit("a", turn);
  ladder_->flush();
  ladder_->erase_soon({"a", false});
  commit("a", 1);
  ladder_->flush();
  EXPECT_EQ(store_->states["a"].turn, 1);
}

// Short of memory, say: its thread is not its own, and serves everybody.
TEST(WriteBehindQueues, AStoreThatThrowsIsOneThatFails) {
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  WriteBehindQueue queue(std::move(owned), "f");
  store.throws = true;
  auto lookup = std::make_shared<SessionLookup>();
  lookup->id = "c";
  std::atomic<bool> answered = false;
  queue.on_news([&] { answered = true; });
  queue.ask(lookup);
  while (!answered) std::this_thread::yield();
  EXPECT_EQ(lookup->status.error().kind, ErrorKind::resource);
  const WriteTicket turn = queue.put({"a", std::make_shared<StateBlob>()});
  turn->wait(WriteStatus::under_way);
  EXPECT_EQ(turn->load(), WriteStatus::kept);
  const WriteTicket erased = queue.erase({"b", false});
  erased->wait(WriteStatus::under_way);
  EXPECT_EQ(erased->load(), WriteStatus::kept);
  store.throws = false;
  EXPECT_EQ(queue.close(), 0) << "nothing is lost";
  EXPECT_TRUE(store.states.contains("a"));
}

SessionWrite write_of(const std::string& id, int64_t turn, size_t bytes = 8) {
  auto blob = std::make_shared<StateBlob>();
  blob->turn = turn;
  blob->payload.resize(bytes);
  return {id, blob};
}

// A flood while the store is away makes it full, and pushes nobody's turn out.
TEST(WriteBehindQueues, DropNothingHoweverMuchWaits) {
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  store.fails = true;
  WriteBehindQueue queue(std::move(owned), "f", {.most_bytes = 100});
  queue.put(write_of("alice", 1));
  EXPECT_FALSE(queue.full());
  for (int i = 0; i < 3000; ++i) queue.put(write_of("zzz" + std::to_string(i), 1));
  EXPECT_TRUE(queue.full());
  EXPECT_EQ(queue.health().waiting_bytes, 3001 * 8);
  queue.flush();
  EXPECT_NE(queue.health().trouble, "");
  store.fails = false;
  EXPECT_EQ(queue.close(), 0);
  EXPECT_EQ(store.states.size(), 3001u);
  EXPECT_FALSE(queue.full());
  EXPECT_EQ(queue.health().trouble, "") << "it is well again";
}

TEST(WriteBehindQueues, ATurnThatFailsConcernsNoOther) {
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  store.fails_for = "b";
  WriteBehindQueue queue(std::move(owned), "f");
  const WriteTicket a = queue.put(write_of("a", 1)), b = queue.put(write_of("b", 1));
  a->wait(WriteStatus::under_way);
  b->wait(WriteStatus::under_way);
  EXPECT_EQ(a->load(), WriteStatus::stored);
  EXPECT_EQ(b->load(), WriteStatus::kept);
  const WriteTicket c = queue.put(write_of("c", 1));
  c->wait(WriteStatus::under_way);
  EXPECT_EQ(c->load(), WriteStatus::stored) << "without waiting for the other's next try";
  EXPECT_EQ(queue.close(), 1);
}

TEST(WriteBehindQueues, WriteInTheOrderInWhichTurnsCame) {
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  std::atomic<bool> writing = false, go = false;
  store.on_store = [&] {
    writing = true;
    go.wait(false);
  };
  WriteBehindQueue queue(std::move(owned), "f");
  queue.put(write_of("first", 1));
  while (!writing) std::this_thread::yield();
  for (const char* id : {"z", "m", "a"}) queue.put(write_of(id, 1));
  go = true;
  go.notify_all();
  EXPECT_EQ(queue.close(), 0);
  EXPECT_THAT(store.tried, testing::ElementsAre("first", "z", "m", "a"));
}

TEST(WriteBehindQueues, ListByPagesWhatIsStoredAndWhatIsOnItsWay) {
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  for (const char* id : {"a1", "a3", "a5", "b1"}) store.states[id].turn = 1;
  store.fails = true;
  WriteBehindQueue queue(std::move(owned), "f");
  queue.put(write_of("a2", 1));
  queue.erase({"a3", false});
  queue.put(write_of("a4", 1));
  std::vector<std::string> ids;
  SessionQuery query{.prefix = "a", .limit = 1};
  for (auto page = queue.list(query); page.ok() && !page->empty(); page = queue.list(query)) {
    ASSERT_EQ(page->size(), 1u);
    ids.push_back(query.after = page->front().id);
  }
  EXPECT_THAT(ids, testing::ElementsAre("a1", "a2", "a4", "a5"));
}

TEST(WriteBehindQueues, AStoreThatIsAwayIsToldWithoutAnyTurn) {
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  store.sweeps_fail = true;
  WriteBehindQueue queue(std::move(owned), "f", {.sweep_every = std::chrono::milliseconds(1)});
  while (queue.health().trouble.empty()) std::this_thread::yield();
  store.sweeps_fail = false;
  while (!queue.health().trouble.empty()) std::this_thread::yield();
}

TEST_F(SessionWrites, WhatTheStoreErasesForItsAgeGoesFromMemory) {
  open({.flush_after = hours(2), .store = {.sweep_every = std::chrono::milliseconds(1)}}, {1});
  commit("old", 1);
  commit("talking", 1);
  shelf_->tick(Clock::now() + hours(3));
  ladder_->flush();
  const SessionClaimPtr claim = ladder_->claim("talking");
  store_->to_sweep({{"old", 0, 5, 1}, {"talking", 0, 5, 1}});
  while (*ladder_->contains("old")) std::this_thread::yield();
  EXPECT_TRUE(*ladder_->contains("talking")) << "a row is about to go on with it";
  ladder_->release(claim);
}

TEST(WriteBehindQueues, LookupsWithoutEndDoNotHoldThemUp) {
  constexpr int kMostLookups = 1000;
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  WriteBehindQueue queue(std::move(owned), "f");
  const auto ask = [&] {
    auto lookup = std::make_shared<SessionLookup>();
    lookup->id = "b";
    queue.ask(lookup);
  };
  std::atomic<int> asked = 0;
  store.on_question = [&] {  // on the queue's thread
    if (asked == 0) queue.put({"a", std::make_shared<StateBlob>()});
    if (++asked < kMostLookups && !store.stored) ask();
  };
  ask();
  while (!store.stored) std::this_thread::yield();
  EXPECT_LT(asked, kMostLookups);
}

TEST(WriteBehindQueues, WhatIsQueuedWhileAWriteIsUnderWayIsStoredBeforeTheEnd) {
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  WriteBehindQueue queue(std::move(owned), "f");
  auto blob = std::make_shared<StateBlob>();
  blob->turn = 1;
  std::atomic<bool> writing = false;
  store.on_store = [&] {  // on the queue's thread; long enough for the end to be asked for meanwhile
    if (!writing.exchange(true)) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  };
  queue.put({"a", blob});
  while (!writing) std::this_thread::yield();
  queue.put({"b", blob});
  EXPECT_EQ(queue.close(), 0);
  EXPECT_EQ(store.states.size(), 2u);
}

TEST_F(SessionWrites, AtTheEndAStoreIsTriedUntilItIsBack) {
  int64_t lost = 0;
  LadderOptions options{.flush_after = hours(2), .on_lost = [&](int64_t count) { lost = count; }};
  options.store.last_tries = hours(1);
  open(std::move(options));
  commit("a", 1);
  store_->away = 5;
  end();
  EXPECT_EQ(lost, 0);
}

TEST_F(SessionWrites, AtTheEndAStoreThatStaysAwayIsGivenUp) {
  int64_t lost = 0;
  open({.flush_after = hours(2), .on_lost = [&](int64_t count) { lost = count; }});
  commit("a", 1);
  store_->away = 5;
  end();
  EXPECT_EQ(lost, 1);
}

}  // namespace
}  // namespace fulmar
