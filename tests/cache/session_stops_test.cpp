// An end at every step: a script of turns, lookups, flushes and erasures is cut short behind each of its
// steps, while the store waits, fails or throws at each of its calls. Whatever the order, a turn that was
// committed is in the store afterwards, or is counted as lost.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <thread>

#include "cache/session_shelf.h"
#include "cpu/cpu_ops.h"
#include "model/state_pool.h"

namespace fulmar {
namespace {

using Clock = std::chrono::steady_clock;

enum class Trouble : uint8_t {
  none,
  waits,       // that one call goes on once the end has begun
  fails,       // that one call
  throws,      // that one call
  stays_away,  // that call and all later ones
};

// What is left behind when everything has ended.
struct Vault {
  std::map<std::string, int64_t> turns;
  std::atomic<bool> ending = false;
  int calls = 0;
  Trouble trouble = Trouble::none;
  int at = 0;  // the call with trouble
};

class TroubledStore final : public SessionStore {
 public:
  explicit TroubledStore(Vault& vault) : vault_(vault) {}

  Result<std::optional<StateBlob>> load(const std::string&, const std::string& id) override {
    FULMAR_TRY(enter());
    return blobs_.contains(id) ? std::optional(blobs_.at(id)) : std::optional<StateBlob>();
  }
  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    const Status entered = enter();
    if (!entered.ok()) return std::vector<Result<bool>>(writes.size(), entered.error());
    std::vector<Result<bool>> outcomes;
    for (const SessionWrite& write : writes) {
      int64_t& turn = vault_.turns[write.id];
      outcomes.emplace_back(turn < write.blob->turn);
      if (turn >= write.blob->turn) continue;
      turn = write.blob->turn;
      blobs_[write.id] = *write.blob;
    }
    return outcomes;
  }
  Result<int64_t> erase(const std::string&, const std::string& id, bool and_branches) override {
    FULMAR_TRY(enter());
    const SessionRange range{id, and_branches};
    std::erase_if(blobs_, [&](const auto& one) { return range.covers(one.first); });
    return static_cast<int64_t>(
        std::erase_if(vault_.turns, [&](const auto& one) { return range.covers(one.first); }));
  }
  Result<int64_t> newest_turn(const std::string&, const std::string& id) override {
    FULMAR_TRY(enter());
    const auto found = vault_.turns.find(id);
    return found == vault_.turns.end() ? int64_t{0} : found->second;
  }
  Result<std::vector<StoredSession>> list(const std::string&, const SessionQuery&) override {
    FULMAR_TRY(enter());
    std::vector<StoredSession> sessions;
    for (const auto& [id, turn] : vault_.turns) sessions.push_back({.id = id, .turn = turn});
    return sessions;
  }

 private:
  Status enter() {
    const int call = ++vault_.calls;
    const bool here = call == vault_.at;
    const bool later = call > vault_.at && vault_.at > 0;
    if (here && vault_.trouble == Trouble::waits) {
      while (!vault_.ending) std::this_thread::yield();
    }
    if (here && vault_.trouble == Trouble::throws) throw std::bad_alloc();
    const bool away = vault_.trouble == Trouble::stays_away && (here || later);
    if (away || (here && vault_.trouble == Trouble::fails)) return Error{ErrorKind::io, "no space left"};
    return {};
  }

  Vault& vault_;
  std::map<std::string, StateBlob> blobs_;
};

// Two shelves of one slot each, on one ladder, with room for one session in host memory: every turn moves
// others down. Only steps that do not wait for the store are taken while it waits.
class Talk {
 public:
  explicit Talk(Vault& vault) : vault_(vault) {
    auto states = StatePool::make(
        *ops_, {.n_layer = 1, .n_embd = 64, .n_head = 1, .head_size = 64, .fields = kShiftsAndWkv}, 4);
    EXPECT_TRUE(states.ok());
    states_ = std::make_unique<StatePool>(std::move(*states));
    ladder_ = std::make_shared<SessionLadder>(
        "f", std::make_unique<TroubledStore>(vault),
        LadderOptions{.host_capacity = 1, .on_lost = [this](int64_t count) { lost_ += count; }});
    for (int64_t i = 0; i < 2; i++) {
      shelves_.push_back(std::make_unique<SessionShelf>(*states_, std::vector<int64_t>{2 * i + 1}, ladder_));
    }
  }

  void say(size_t shelf, const std::string& id) {
    const SessionClaimPtr claim = ladder_->claim(id);
    ASSERT_NE(claim, nullptr);
    const int64_t turn = answered_[id] + 1;
    if (shelves_[shelf]->commit(*claim, 0, {turn, turn}).ok()) answered_[id] = turn;
    ladder_->release(claim);
  }
  // Asked for, and perhaps never answered.
  void look_up(size_t shelf, const std::string& id) {
    lookups_.push_back(shelves_[shelf]->look_up(id, true));
    shelves_[1 - shelf]->serve();
  }
  void restore(size_t shelf, const std::string& id) {
    const auto lookup = shelves_[shelf]->look_up(id, true);
    shelves_[1 - shelf]->serve();
    while (!lookup->done) std::this_thread::yield();
    (void)shelves_[shelf]->restore(*lookup, 0);
  }
  void tick(size_t shelf) { shelves_[shelf]->tick(Clock::now() + std::chrono::hours(1)); }
  void flush() { ladder_->flush(); }
  void erase(const std::string& id) {
    ladder_->erase_soon({id, true});
    std::erase_if(answered_, [&](const auto& one) { return SessionRange{id, true}.covers(one.first); });
    erased_.insert(id);
  }

  // Ends as a server does: engines hand over, then the ladder writes.
  void end() {
    for (auto& shelf : shelves_) shelf->leave();
    vault_.ending = true;
    shelves_.clear();
    ladder_.reset();
  }

  // Turns that were answered and are not in the store, and erased sessions that are.
  int64_t missing() const {
    int64_t count = 0;
    for (const auto& [id, turn] : answered_) {
      const auto found = vault_.turns.find(id);
      count += found == vault_.turns.end() || found->second < turn ? 1 : 0;
    }
    for (const std::string& id : erased_)
      count += vault_.turns.contains(id) && !answered_.contains(id) ? 1 : 0;
    return count;
  }
  int64_t lost() const { return lost_; }

 private:
  Vault& vault_;
  const std::unique_ptr<Ops> ops_ = make_cpu_ops({.threads = 1});
  std::unique_ptr<StatePool> states_;
  std::shared_ptr<SessionLadder> ladder_;
  std::vector<std::unique_ptr<SessionShelf>> shelves_;
  std::vector<std::shared_ptr<SessionLookup>> lookups_;
  std::map<std::string, int64_t> answered_;
  std::set<std::string> erased_;
  std::atomic<int64_t> lost_ = 0;
};

struct Step {
  std::function<void(Talk&)> take;
  bool needs_store = false;  // it waits for the store, which must not wait for the end then
};

const std::vector<Step>& script() {
  static const std::vector<Step> steps = {
      {[](Talk& talk) { talk.say(0, "a"); }},
      {[](Talk& talk) { talk.tick(0); }},
      {[](Talk& talk) { talk.say(0, "b"); }},  // pushes "a" off the shelf
      {[](Talk& talk) { talk.say(0, "a"); }},
      {[](Talk& talk) { talk.say(1, "c"); }},
      {[](Talk& talk) { talk.say(1, "d"); }},  // "b" or "c" leaves host memory
      {[](Talk& talk) { talk.look_up(0, "c"); }},
      {[](Talk& talk) { talk.look_up(1, "unknown"); }},
      {[](Talk& talk) { talk.restore(1, "a"); }, true},
      {[](Talk& talk) { talk.say(1, "a"); }},
      {[](Talk& talk) { talk.flush(); }, true},
      {[](Talk& talk) { talk.say(0, "e"); }},
      {[](Talk& talk) { talk.erase("b"); }},
      {[](Talk& talk) { talk.tick(1); }},
      {[](Talk& talk) { talk.say(0, "b"); }},
      {[](Talk& talk) { talk.say(0, "a"); }},
      {[](Talk& talk) { talk.erase("e"); }},
  };
  return steps;
}

class Stops : public ::testing::TestWithParam<Trouble> {};

TEST_P(Stops, LoseNoTurnThatIsNotCounted) {
  const Trouble trouble = GetParam();
  constexpr int kMostCalls = 24;  // of the store, in the longest run
  int most_calls = 0;
  for (size_t steps = 0; steps <= script().size(); steps++) {
    for (int call = 1; call <= (trouble == Trouble::none ? 1 : kMostCalls); call++) {
      Vault vault;
      vault.trouble = trouble;
      vault.at = call;
      Talk talk(vault);
      for (size_t i = 0; i < steps; i++) {
        if (trouble == Trouble::waits && script()[i].needs_store) continue;
        script()[i].take(talk);
      }
      talk.end();
      const auto where = [&] {
        return std::to_string(steps) + " steps, trouble at call " + std::to_string(call);
      };
      EXPECT_LE(talk.missing(), talk.lost()) << where();
      if (trouble != Trouble::stays_away) {
        EXPECT_EQ(talk.missing(), 0) << where();
      }
      most_calls = std::max(most_calls, vault.calls);
    }
  }
  EXPECT_LT(most_calls, kMostCalls) << "some calls were never the one with trouble";
}

INSTANTIATE_TEST_SUITE_P(Sessions, Stops,
                         ::testing::Values(Trouble::none, Trouble::waits, Trouble::fails, Trouble::throws,
                                           Trouble::stays_away));

}  // namespace
}  // namespace fulmar
