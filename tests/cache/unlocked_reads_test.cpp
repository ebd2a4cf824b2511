// While an engine reads a state from its device nobody waits for the ladder, and what others do to the
// session meanwhile holds.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <thread>

#include "cache/session_shelf.h"
#include "cpu/cpu_ops.h"
#include "model/state_pool.h"

namespace fulmar {
namespace {

// Slots whose reads wait for the test from the first one on that it asks for.
class GatedSlots final : public StateSlots {
 public:
  explicit GatedSlots(StatePool pool) : pool_(std::move(pool)) {}
  const StateLayout& layout() const override { return pool_.layout(); }
  void zero(int64_t slot) override { pool_.zero(slot); }
  void copy(int64_t from, int64_t to) override { pool_.copy(from, to); }
  void write(int64_t slot, std::span<const std::byte> from) override { pool_.write(slot, from); }
  void read(int64_t slot, std::span<std::byte> out) override {
    if (gated.exchange(false)) {
      reading.set_value();
      go_on.get_future().wait();
    }
    pool_.read(slot, out);
  }

  std::atomic<bool> gated = false;
  std::promise<void> reading, go_on;

 private:
  StatePool pool_;
};

class TurnsStore final : public SessionStore {
 public:
  TurnsStore(std::map<std::string, int64_t>& turns, bool shared) : turns_(turns), shared_(shared) {}
  bool shared() const override { return shared_; }
  Result<std::optional<StateBlob>> load(const std::string&, const std::string&) override {
    return std::optional<StateBlob>();
  }
  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    for (const SessionWrite& write : writes) turns_[write.id] = write.blob->turn;
    return std::vector<Result<bool>>(writes.size(), true);
  }
  Result<int64_t> erase(const std::string&, const std::string& id, bool) override {
    return static_cast<int64_t>(turns_.erase(id));
  }
  Result<int64_t> newest_turn(const std::string&, const std::string& id) override {
    return turns_.contains(id) ? turns_[id] : int64_t{0};
  }
  Result<std::vector<StoredSession>> list(const std::string&, const SessionQuery&) override {
    return std::vector<StoredSession>();
  }

 private:
  std::map<std::string, int64_t>& turns_;
  const bool shared_;
};

struct Case {
  const char* name;
  bool shared = false;
  std::function<void(SessionShelf&, SessionShelf&)> read;  // by the first shelf, which holds "a"
};

void commit(SessionShelf& shelf, const std::string& id, int64_t turn) {
  const SessionClaimPtr claim = shelf.ladder().claim(id);
  ASSERT_NE(claim, nullptr);
  EXPECT_TRUE(shelf.commit(*claim, 0, {turn, turn}).ok());
  shelf.ladder().release(claim);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"eviction", false, [](SessionShelf& shelf, SessionShelf&) { commit(shelf, "b", 1); }},
      {"tick", false,
       [](SessionShelf& shelf, SessionShelf&) {
         shelf.tick(std::chrono::steady_clock::now() + std::chrono::hours(1));
       }},
      {"serve", false,
       [](SessionShelf& shelf, SessionShelf& other) {
         const auto lookup = other.look_up("a", true);
         shelf.serve();
         EXPECT_TRUE(lookup->done);
       }},
      {"leave", false, [](SessionShelf& shelf, SessionShelf&) { shelf.leave(); }},
      {"shared", true, [](SessionShelf& shelf, SessionShelf&) { commit(shelf, "b", 1); }},
  };
  return all;
}

class UnlockedReads : public ::testing::TestWithParam<size_t> {
 protected:
  void run(const std::function<void(SessionLadder&)>& meanwhile) {
    const Case& one = cases()[GetParam()];
    const auto ops = make_cpu_ops({.threads = 1});
    auto pool = StatePool::make(
        *ops, {.n_layer = 1, .n_embd = 64, .n_head = 1, .head_size = 64, .fields = kShiftsAndWkv}, 3);
    ASSERT_TRUE(pool.ok());
    GatedSlots slots(std::move(*pool));
    {
      const auto ladder =
          std::make_shared<SessionLadder>("f", std::make_unique<TurnsStore>(turns_, one.shared),
                                          LadderOptions{.flush_after = std::chrono::hours(2)});
      SessionShelf shelf(slots, {1}, ladder), other(slots, {2}, ladder);
      commit(shelf, "a", 1);
      slots.gated = true;
      std::thread engine([&] { one.read(shelf, other); });
      slots.reading.get_future().wait();
      ladder->release(ladder->claim("free"));  // each of these would wait for ever where the lock is held
      EXPECT_EQ(ladder->list()->size(), 1u);
      other.count();
      meanwhile(*ladder);
      slots.go_on.set_value();
      engine.join();
    }
  }

  std::map<std::string, int64_t> turns_;  // as stored in the end
};

TEST_P(UnlockedReads, HoldUpNobody) {
  run([](SessionLadder&) {});
  EXPECT_EQ(turns_["a"], 1);
}

TEST_P(UnlockedReads, BringNoErasedSessionBack) {
  run([](SessionLadder& ladder) { EXPECT_EQ(*ladder.erase({"a", false}), 1); });
  EXPECT_FALSE(turns_.contains("a"));
}

TEST_P(UnlockedReads, ReplaceNoNewerState) {
  run([](SessionLadder& ladder) {
    const StateLayout layout{
        .n_layer = 1, .n_embd = 64, .n_head = 1, .head_size = 64, .fields = kShiftsAndWkv};
    EXPECT_TRUE(ladder.import("a", std::vector<std::byte>(layout.slot_bytes()), layout, 9).ok());
  });
  EXPECT_EQ(turns_["a"], 2);
}

INSTANTIATE_TEST_SUITE_P(Sessions, UnlockedReads, ::testing::Range<size_t>(0, cases().size()),
                         [](const auto& one) { return cases()[one.param].name; });

}  // namespace
}  // namespace fulmar
