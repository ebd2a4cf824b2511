// Engines around one shared store whose doors the test opens and closes: when an answer may end, who waits
// for whom, and whose turn counts.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using std::chrono::milliseconds;
using testing::in_session;
using testing::RecordingListener;
using testing::RowLog;
using testing::TinyEngine;

// What the engines of a test share.
class Vault {
 public:
  void open_writes(bool open) {
    change([&] { writes_open_ = open; });
  }
  void open_reads(bool open) {
    change([&] { reads_open_ = open; });
  }
  void break_down(bool broken) {
    change([&] { broken_ = broken; });
  }
  void replace(const std::string& id, const StateBlob& blob) {
    change([&] { blobs_[id] = blob; });
  }

  int64_t turn(const std::string& id) {
    std::lock_guard lock(mutex_);
    const auto found = blobs_.find(id);
    return found == blobs_.end() ? 0 : found->second.turn;
  }
  int64_t refused() const { return refused_; }  // reads and writes while it was broken
  StateBlob blob(const std::string& id) {
    std::lock_guard lock(mutex_);
    return blobs_.at(id);
  }
  bool wait_for_writer() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return writers_ > 0; });
  }
  bool wait_for_reader() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return readers_ > 0; });
  }

  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) {
    std::unique_lock lock(mutex_);
    wait_for_door(lock, writes_open_, writers_);
    if (broken_) {
      refused_++;
      return std::vector<Result<bool>>(writes.size(), away());
    }
    std::vector<Result<bool>> outcomes;
    for (const SessionWrite& write : writes) {
      const auto found = blobs_.find(write.id);
      const bool late = found != blobs_.end() && found->second.turn >= write.blob->turn;
      if (!late) blobs_[write.id] = *write.blob;
      outcomes.emplace_back(!late);
    }
    return outcomes;
  }
  Result<std::optional<StateBlob>> load(const std::string& id) {
    std::unique_lock lock(mutex_);
    wait_for_door(lock, reads_open_, readers_);
    if (broken_) {
      refused_++;
      return away();
    }
    const auto found = blobs_.find(id);
    return found == blobs_.end() ? std::optional<StateBlob>() : std::optional<StateBlob>(found->second);
  }
  Result<std::vector<StoredSession>> list() {
    std::unique_lock lock(mutex_);
    wait_for_door(lock, reads_open_, readers_);
    std::vector<StoredSession> sessions;
    for (const auto& [id, blob] : blobs_) sessions.push_back({id, 0, blob.tokens, blob.turn});
    return sessions;
  }
  Result<int64_t> erase(const std::string& id) {
    std::unique_lock lock(mutex_);
    wait_for_door(lock, writes_open_, writers_);
    return static_cast<int64_t>(blobs_.erase(id));
  }

 private:
  template <class Change>
  void change(Change change) {
    {
      std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }
  void wait_for_door(std::unique_lock<std::mutex>& lock, const bool& open, int& waiting) {
    waiting++;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open; });
    waiting--;
  }
  static Error away() { return {ErrorKind::unavailable, "the vault is away"}; }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, StateBlob> blobs_;
  bool writes_open_ = true, reads_open_ = true, broken_ = false;
  int writers_ = 0, readers_ = 0;
  std::atomic<int64_t> refused_ = 0;
};

class VaultStore final : public SessionStore {
 public:
  explicit VaultStore(std::shared_ptr<Vault> vault, bool shared = true)
      : vault_(std::move(vault)), shared_(shared) {}
  bool shared() const override { return shared_; }
  Result<std::optional<StateBlob>> load(const std::string&, const std::string& id) override {
    return vault_->load(id);
  }
  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    return vault_->store(writes);
  }
  Result<int64_t> newest_turn(const std::string&, const std::string& id) override {
    FULMAR_ASSIGN(const auto blob, vault_->load(id));
    return blob ? blob->turn : int64_t{0};
  }
  Result<int64_t> erase(const std::string&, const std::string& id, bool) override {
    return vault_->erase(id);
  }
  Result<std::vector<StoredSession>> list(const std::string&, const SessionQuery&) override {
    return vault_->list();
  }

 private:
  std::shared_ptr<Vault> vault_;
  const bool shared_;
};

class SharedStore : public ::testing::Test {
 protected:
  std::unique_ptr<TinyEngine> worker(milliseconds patience = std::chrono::minutes(10), int64_t slots = 4,
                                     WriteBehindOptions store = {}) {
    EngineOptions options{.slots = slots, .prefill_chunk = 16};
    options.sessions.store_patience = patience;
    options.sessions.store = store;
    return std::make_unique<TinyEngine>(options, 7, std::make_unique<VaultStore>(vault_));
  }
  ~SharedStore() override {  // a worker that ends writes what it has: not before a closed door
    vault_->open_writes(true);
    vault_->open_reads(true);
  }

  std::shared_ptr<Vault> vault_ = std::make_shared<Vault>();
};

// What the engine knows once everything delivered so far is behind it.
EngineStats stats_after(TinyEngine& worker) {
  worker.engine().states();  // through the engine's thread
  return worker.engine().stats();
}

bool ended(RecordingListener& listener) {
  bool over = false;
  listener.wait_until([&](const auto& rows) {
    over = rows.contains(0) && rows.at(0).last.has_value();
    return true;
  });
  return over;
}

// While as much waits for the store as may: what would add to it is refused, the rest is answered, and what
// waits is there once the store is.
TEST_F(SharedStore, ATurnIsRefusedWhereItCouldNotBeKept) {
  const auto worker = this->worker(milliseconds(1), 4, {.most_bytes = 1});
  vault_->open_writes(false);
  worker->submit({in_session("s", "hello")})->finished();
  EXPECT_EQ(worker->ladder()->takes_more().error().kind, ErrorKind::resource);
  Request refused{.rows = {in_session("t", "hello")}, .listener = std::make_shared<RecordingListener>()};
  EXPECT_EQ(worker->engine().submit(std::move(refused)).error().kind, ErrorKind::resource);
  EXPECT_EQ(worker->ladder()->import("u", {}, {.fields = kShiftsAndWkv}, 1).error().kind,
            ErrorKind::resource);
  EXPECT_EQ(worker->run(in_session("", "x")).last->reason, FinishReason::length);
  vault_->open_writes(true);
  worker->ladder()->flush();
  EXPECT_EQ(vault_->turn("s"), 1);
  worker->submit({in_session("t", "hello")})->finished();
  EXPECT_EQ(vault_->turn("t"), 1);
}

TEST_F(SharedStore, AnAnswerEndsOnceTheStoreHasItsTurnAndNobodyElseWaits) {
  const auto worker = this->worker(std::chrono::minutes(10), 1);
  vault_->open_writes(false);
  const auto first = worker->submit({in_session("s", "hello")});
  ASSERT_TRUE(vault_->wait_for_writer());
  // Its only slot is free for others, who come and go meanwhile.
  for (int i = 0; i < 3; i++) EXPECT_EQ(worker->run(in_session("", "x")).last->reason, FinishReason::length);
  EXPECT_FALSE(ended(*first)) << "the turn would be lost if this worker died now";
  EXPECT_EQ(stats_after(*worker).requests.size(), 1u) << "still to be seen";
  vault_->open_writes(true);
  EXPECT_EQ(first->finished().at(0).last->reason, FinishReason::length);
  EXPECT_EQ(vault_->turn("s"), 1);
}

// --durable-sessions: what a shared store has anyhow, of a store of our own.
TEST_F(SharedStore, ADurableTurnEndsOnceAStoreOfOurOwnHasIt) {
  for (const bool durable : {false, true}) {
    EngineOptions options{.slots = 4, .prefill_chunk = 16};
    options.sessions.flush_after = options.sessions.store_patience = std::chrono::minutes(10);
    options.sessions.durable = durable;
    TinyEngine engine(options, 7, std::make_unique<VaultStore>(vault_, false));
    const std::string id = durable ? "durable" : "usual";
    vault_->open_writes(false);
    const auto row = engine.submit({in_session(id, "hello")});
    if (durable) {
      ASSERT_TRUE(vault_->wait_for_writer());
      EXPECT_FALSE(ended(*row)) << "the turn would be lost if the process died now";
      vault_->open_writes(true);
    }
    EXPECT_EQ(row->finished().at(0).last->reason, FinishReason::length);
    EXPECT_EQ(vault_->turn(id), durable ? 1 : 0);
    vault_->open_writes(true);
  }
}

TEST_F(SharedStore, TurnsOfOneSessionWaitForEachOthersStoring) {
  const auto worker = this->worker();
  vault_->open_writes(false);
  const auto first = worker->submit({in_session("s", "one")});
  ASSERT_TRUE(vault_->wait_for_writer());
  const auto second = worker->submit({in_session("s", "two")});
  worker->run(in_session("", "x"));
  EXPECT_FALSE(ended(*second));
  vault_->open_writes(true);
  first->finished();
  second->finished();
  EXPECT_EQ(vault_->turn("s"), 2);
}

TEST_F(SharedStore, AStoreThatIsAwayDelaysNoAnswerForGood) {
  const auto worker = this->worker();
  worker->run(in_session("s", "before"));
  vault_->break_down(true);
  const RowLog row = worker->run(in_session("s", " during"));
  EXPECT_EQ(row.last->reason, FinishReason::length);
  EXPECT_EQ(stats_after(*worker).session_turns_unconfirmed, 1);
  EXPECT_GE(stats_after(*worker).session_store_failures, 1);
  EXPECT_EQ(worker->run(in_session("unknown", "who?")).last->error->kind, ErrorKind::unavailable)
      << "a session that may exist elsewhere is no new one";
  vault_->break_down(false);
  worker->run(in_session("s", " after"));
  EXPECT_EQ(vault_->turn("s"), 3);
}

TEST_F(SharedStore, EnginesOnOneLadderTellItsFiguresOnce) {
  const auto first = worker();
  TinyEngine second({.slots = 4, .prefill_chunk = 16}, first->ladder());
  first->run(in_session("s", "before"));
  second.run(in_session("s", " and"));
  vault_->break_down(true);
  first->run(in_session("s", " during"));
  second.run(in_session("s", " still"));
  const EngineStats one = stats_after(*first), two = stats_after(second);
  const int64_t failures = one.session_store_failures + two.session_store_failures;
  EXPECT_GE(failures, 1);
  EXPECT_LE(failures, vault_->refused());
  EXPECT_EQ(one.device_sessions + two.device_sessions + one.host_sessions + two.host_sessions, 1);
  vault_->break_down(false);
}

TEST_F(SharedStore, AStoreThatHangsIsWaitedForNoLongerThanAllowed) {
  const auto worker = this->worker(milliseconds(30));
  vault_->open_writes(false);
  EXPECT_EQ(worker->run(in_session("s", "hello")).last->reason, FinishReason::length);
  EXPECT_EQ(stats_after(*worker).session_turns_unconfirmed, 1);
  EXPECT_EQ(vault_->turn("s"), 0);
  vault_->open_writes(true);
}

TEST_F(SharedStore, DrainingWaitsForTurnsOnTheirWay) {
  const auto worker = this->worker();
  vault_->open_writes(false);
  const auto last = worker->submit({in_session("s", "hello")});
  ASSERT_TRUE(vault_->wait_for_writer());
  std::atomic<bool> drained = false;
  worker->engine().drain([&] { drained = true; });
  worker->engine().states();  // has been through the engine's thread since
  EXPECT_FALSE(drained);
  vault_->open_writes(true);
  last->finished();
  while (!drained) std::this_thread::yield();
  EXPECT_EQ(vault_->turn("s"), 1);
}

TEST_F(SharedStore, CancellingChangesNothingForATurnOnItsWay) {
  const auto worker = this->worker();
  vault_->open_writes(false);
  std::string id;
  const auto row = worker->submit({in_session("s", "hello")}, &id);
  ASSERT_TRUE(vault_->wait_for_writer());
  EXPECT_TRUE(worker->engine().cancel({}, id));
  worker->run(in_session("", "x"));
  EXPECT_FALSE(ended(*row));
  vault_->open_writes(true);
  EXPECT_EQ(row->finished().at(0).last->reason, FinishReason::length);
}

TEST_F(SharedStore, AStoppingEngineEndsRowsOnTheirWay) {
  auto worker = this->worker();
  vault_->open_writes(false);
  const auto row = worker->submit({in_session("s", "hello")});
  ASSERT_TRUE(vault_->wait_for_writer());
  std::thread stopping([&] { worker->stop(); });
  EXPECT_EQ(row->finished().at(0).last->reason, FinishReason::length);
  vault_->open_writes(true);
  stopping.join();
  EXPECT_EQ(vault_->turn("s"), 1) << "written on the way out";
}

TEST_F(SharedStore, LookingASessionUpHoldsUpNobodyElse) {
  const auto worker = this->worker();
  vault_->open_reads(false);
  std::string id;
  const auto given_up = worker->submit({in_session("s", "hello")}, &id);
  const auto patient = worker->submit({in_session("t", "hello")});
  ASSERT_TRUE(vault_->wait_for_reader());
  EXPECT_EQ(worker->run(in_session("", "x")).last->reason, FinishReason::length);
  EXPECT_TRUE(worker->engine().cancel({}, id));
  EXPECT_EQ(given_up->finished().at(0).last->reason, FinishReason::cancelled);
  EXPECT_FALSE(ended(*patient));
  vault_->open_reads(true);
  EXPECT_EQ(patient->finished().at(0).last->reason, FinishReason::length);
  EXPECT_EQ(worker->run(in_session("s", "again")).last->reason, FinishReason::length)
      << "its session is free";
}

TEST_F(SharedStore, ListingAndErasingHoldUpNobodyElse) {
  const auto worker = this->worker();
  worker->run(in_session("s", "hello"));
  vault_->open_reads(false);
  std::thread listing([&] { EXPECT_EQ(worker->engine().sessions({})->size(), 1u); });
  EXPECT_TRUE(vault_->wait_for_reader());
  EXPECT_EQ(worker->run(in_session("", "x")).last->reason, FinishReason::length);
  vault_->open_reads(true);
  listing.join();
  vault_->open_writes(false);
  std::thread erasing([&] { EXPECT_EQ(*worker->engine().erase_session({}, "s", false), 1); });
  EXPECT_TRUE(vault_->wait_for_writer());
  EXPECT_EQ(worker->run(in_session("", "x")).last->reason, FinishReason::length);
  vault_->open_writes(true);
  erasing.join();
  EXPECT_EQ(vault_->turn("s"), 0);
}

TEST_F(SharedStore, AnyWorkerGoesOnWithTheNewestTurn) {
  const auto one = worker(), other = worker();
  std::string said = "first";
  std::string answer = bytes_of(one->run(in_session("s", said)));
  for (const auto& [worker, text] :
       {std::pair{&other, " second"}, std::pair{&one, " third"}, std::pair{&one, " fourth"}}) {
    said += answer + text;
    answer = bytes_of((*worker)->run(in_session("s", text)));
    EXPECT_EQ(answer, bytes_of((*worker)->run(in_session("", said)))) << text;
  }
  EXPECT_EQ(vault_->turn("s"), 4);
}

TEST_F(SharedStore, AWorkerThatComesLateIsToldAndGoesOnFromTheOthersTurn) {
  const auto late = worker(), quick = worker();
  const std::string first = bytes_of(late->run(in_session("s", "begin")));
  vault_->open_writes(false);
  const auto lost = late->submit({in_session("s", " late")});
  ASSERT_TRUE(vault_->wait_for_writer());
  // The other worker's second turn arrives while the late one's is on its way.
  StateBlob elsewhere = vault_->blob("s");
  elsewhere.turn = 2;
  vault_->replace("s", elsewhere);
  vault_->open_writes(true);
  const RowLog row = lost->finished().at(0);
  EXPECT_EQ(row.last->reason, FinishReason::failed);
  EXPECT_EQ(row.last->error->kind, ErrorKind::conflict);
  EXPECT_EQ(vault_->turn("s"), 2);
  EXPECT_EQ(bytes_of(late->run(in_session("s", " next"))),
            bytes_of(late->run(in_session("", "begin" + first + " next"))));
}

TEST_F(SharedStore, AWorkerWithoutACopyInMemoryDoesNotOverwriteEither) {
  EngineOptions options{.slots = 2, .prefill_chunk = 16, .device_sessions = 0};
  options.sessions.host_capacity = 0;
  TinyEngine late(options, 7, std::make_unique<VaultStore>(vault_));
  late.run(in_session("s", "begin"));
  Ask open_ended = in_session("s", " on and on", 1'000'000);
  open_ended.state.keep_on_cancel = true;
  std::string id;
  const auto running = late.submit({open_ended}, &id);
  ASSERT_TRUE(
      running->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 0; }));
  StateBlob elsewhere = vault_->blob("s");
  elsewhere.turn = 2;
  vault_->replace("s", elsewhere);
  late.engine().cancel({}, id);
  EXPECT_EQ(running->finished().at(0).last->reason, FinishReason::failed);
  EXPECT_EQ(vault_->turn("s"), 2);
}

TEST_F(SharedStore, AnImportReturnsOnceTheStoreHasIt) {
  const auto worker = this->worker();
  worker->run(in_session("s", "begin"));
  vault_->open_writes(false);
  std::atomic<bool> imported = false;
  std::thread importing([&] {
    EXPECT_TRUE(worker->engine().import_session({}, "copy", vault_->blob("s")).ok());
    imported = true;
  });
  ASSERT_TRUE(vault_->wait_for_writer());
  EXPECT_FALSE(imported);
  vault_->open_writes(true);
  importing.join();
  EXPECT_EQ(vault_->turn("copy"), 1);
}

}  // namespace
}  // namespace fulmar
