// When turns reach the store.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "cache/session_ladder.h"
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
  Result<std::vector<std::string>> store(const std::vector<SessionWrite>& writes) override {
    for (const SessionWrite& write : writes) states[write.id] = *write.blob;
    stored = true;
    return std::vector<std::string>();
  }
  Result<int64_t> erase(const std::string&, const std::string& id, bool) override {
    return static_cast<int64_t>(states.erase(id));
  }
  Result<int64_t> newest_turn(const std::string&, const std::string& id) override {
    if (on_question) on_question();
    return states.contains(id) ? states[id].turn : 0;
  }
  Result<std::vector<StoredSession>> list(const std::string&) override {
    return std::vector<StoredSession>();
  }

  std::map<std::string, StateBlob> states;
  std::atomic<bool> stored = false;
  std::function<void()> on_question;
};

TEST(SessionWrites, TalkingFastDoesNotPutThemOff) {
  const auto ops = make_cpu_ops({.threads = 1});
  auto states = StatePool::make(*ops, {.n_layer = 1, .n_embd = 64, .n_head = 1, .head_size = 64}, 2);
  ASSERT_TRUE(states.ok());
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  SessionLadder ladder(*ops, states->view(), {1}, "f", std::move(owned), {.flush_after = hours(2)});
  ASSERT_TRUE(ladder.commit("a", 0, 5, 1).ok());
  const Clock::time_point after_first = Clock::now();
  while (Clock::now() == after_first) continue;
  ASSERT_TRUE(ladder.commit("a", 0, 10, 2).ok());
  EXPECT_TRUE(ladder.tick(after_first).has_value()) << "nothing is due yet";
  EXPECT_EQ(ladder.tick(after_first + hours(1)), std::nullopt) << "the first turn's time is over";
  ladder.flush();
  EXPECT_EQ(store.states["a"].turn, 2);
}

TEST(SessionWrites, LookupsWithoutEndDoNotHoldThemUp) {
  constexpr int kMostLookups = 1000;
  auto owned = std::make_unique<MemoryStore>();
  MemoryStore& store = *owned;
  StoreCourier courier(std::move(owned), "f");
  const auto ask = [&] {
    auto lookup = std::make_shared<SessionLookup>();
    lookup->id = "b";
    courier.ask(lookup);
  };
  std::atomic<int> asked = 0;
  store.on_question = [&] {  // on the courier's thread
    if (asked == 0) courier.put({"a", std::make_shared<StateBlob>()});
    if (++asked < kMostLookups && !store.stored) ask();
  };
  ask();
  while (!store.stored) std::this_thread::yield();
  EXPECT_LT(asked, kMostLookups);
}

}  // namespace
}  // namespace fulmar
