// Write-behind: the one thread that talks to a SessionStore: it carries newest states there and answers to
// what the engine asks, so that the engine never waits. What is on its way can still be read.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/thread.h"
#include "cache/session_store.h"

namespace fulmar {

// How a turn fares on its way to the store.
enum class TurnFate : uint8_t {
  under_way,
  stored,
  kept,     // the store failed; the state stays with us and is tried again
  refused,  // somebody else has committed this turn or a later one
};
using TurnTicket = std::shared_ptr<const std::atomic<TurnFate>>;

// A question about one session. Whoever asked reads the answer once `done` is true; it can be waited for.
struct SessionLookup {
  static constexpr int64_t kTurnOnly = std::numeric_limits<int64_t>::max();

  std::string id;
  int64_t known_turn = 0;  // the state is wanted when it is newer; kTurnOnly: never
  std::atomic<bool> done = false;
  std::atomic<bool> erased = false;  // the session was, since: ask again

  Status status;     // why the store did not answer
  int64_t turn = 0;  // the newest there, 0: none
  std::shared_ptr<const StateBlob> state;

  void answered() {
    done = true;
    done.notify_all();
  }
};

// `id` itself, or with branches also every id that starts with "<id>:".
struct SessionRange {
  std::string id;
  bool and_branches = false;

  bool covers(const std::string& other) const {
    return other == id ||
           (and_branches && other.size() > id.size() && other[id.size()] == ':' && other.starts_with(id));
  }
};

struct CourierOptions {
  // Of states that wait for the store; full() beyond. What is put is taken all the same: nothing that was
  // answered is dropped.
  int64_t most_bytes = int64_t{1} << 30;
  std::chrono::milliseconds sweep_every{60'000};  // SessionStore::sweep(); the first one at once
  // How long close() goes on trying beyond its second try.
  std::chrono::milliseconds last_tries{0};
};

// How the store fares.
struct StoreHealth {
  int64_t failures = 0;       // writes and reads that have failed
  int64_t waiting_bytes = 0;  // of states that it has not yet
  std::string trouble;        // why it has failed, if it has not worked since; else empty
};

class StoreCourier {
 public:
  StoreCourier(std::unique_ptr<SessionStore> store, std::string fingerprint, CourierOptions options = {});
  ~StoreCourier();  // close()

  // `news` is called, on the courier's thread, after a lookup was answered or the fate of turns has become
  // known. Set it before the first of them.
  void on_news(std::function<void()> news);
  // `swept` is called, on the courier's thread, with what the store has erased by itself. As on_news().
  void on_sweep(std::function<void(const std::vector<StoredSession>&)> swept);

  // Other processes commit sessions there, too.
  bool shared() const { return shared_; }

  // The next three never block on the store. What is queued counts as done in all answers.
  // Queues a session's newest state; an older one still queued is dropped.
  TurnTicket put(SessionWrite write);
  // Queues an erasure, before which no state that is put later is written; it is tried until it succeeds. The
  // ticket becomes `stored` then, `kept` when the store has failed.
  TurnTicket erase(SessionRange range);
  void ask(std::shared_ptr<SessionLookup> lookup);

  // The following block on the store.
  Result<std::shared_ptr<const StateBlob>> load(const std::string& id);  // null: there is none
  Result<int64_t> newest_turn(const std::string& id);                    // 0: there is none
  // In the order of their ids. While the store fails to tell, health() says so.
  Result<std::vector<StoredSession>> list(const SessionQuery& query);
  // Waits until everything queued so far was tried.
  void flush();
  // Tries what is queued at least twice, and for `last_tries` where that fails, then stops. Returns how many
  // turns and erasures have not reached the store, and how many sessions it has lost, over all.
  int64_t close();

  // Whether so much waits that nothing should be begun that adds to it.
  bool full() const { return waiting_bytes_ > options_.most_bytes; }
  StoreHealth health() const;

 private:
  using Fate = std::shared_ptr<std::atomic<TurnFate>>;
  using Clock = std::chrono::steady_clock;
  struct Parcel {
    std::shared_ptr<const StateBlob> blob;
    Fate fate;
    uint64_t number = 0;             // in the order in which they were put
    Clock::time_point not_before{};  // after a failure of its own
  };
  struct Erasure {
    SessionRange range;
    Fate fate;
  };
  using Parcels = std::map<std::string, Parcel>;
  using Lock = std::unique_lock<std::mutex>;

  void run();
  void wait_for_work(Lock& lock);
  Result<std::vector<StoredSession>> list_stored(const SessionQuery& query);
  void list_again(Lock& lock);
  template <class T>
  Result<T> noted(Result<T> answer);
  void answer_lookups(Lock& lock);
  void answer(SessionLookup& lookup);
  Status answer_from_store(SessionLookup& lookup, int64_t known);
  // Under the lock.
  bool nothing_queued() const { return queued_.empty() && writing_.empty() && erasures_.empty(); }
  Clock::time_point next_try() const;
  std::vector<SessionWrite> take_due(Clock::time_point now);
  bool erase_queued(Lock& lock);
  void write_queued(Lock& lock, Clock::time_point now);
  void sweep(Lock& lock);
  void prepare_last_try(Lock& lock, int tried);
  void store_failed(const Error& error);
  void store_answered();
  void tell_fate(const std::string& id, const Result<bool>& outcome);
  void count_waiting();
  // What is queued about a session: a state, or that it is erased, or nothing.
  struct Queued {
    std::shared_ptr<const StateBlob> blob;
    bool erased = false;
  };
  Queued on_its_way(const std::string& id) const;
  bool erased(const std::string& id) const;

  const std::unique_ptr<SessionStore> store_;
  const bool shared_;
  const std::string fingerprint_;
  const CourierOptions options_;
  std::mutex store_mutex_;  // the store is used by one thread at a time
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> news_;
  std::function<void(const std::vector<StoredSession>&)> swept_;
  std::vector<std::shared_ptr<SessionLookup>> lookups_;
  std::vector<Erasure> erasures_;  // not yet carried out; they go before what is queued
  Parcels queued_;                 // waiting
  Parcels writing_;                // in the transaction under way
  uint64_t last_number_ = 0;
  Clock::time_point retry_at_{};  // of everything, since the store is away
  Clock::time_point sweep_at_{};
  bool stopping_ = false;
  Clock::time_point give_up_at_{};  // where stopping_
  std::atomic<int64_t> waiting_bytes_ = 0;
  int64_t failures_ = 0;
  std::string trouble_;
  std::string sweep_trouble_;             // why the last sweep has failed, if it has
  std::optional<SessionQuery> unlisted_;  // a list that the store has failed to tell, and has not told since
  std::string unlisted_trouble_;
  Thread thread_;
};

}  // namespace fulmar
