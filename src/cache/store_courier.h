// The one thread that talks to a SessionStore: it carries newest states there and answers to what the engine
// asks, so that the engine never waits. What is on its way can still be read.
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
#include <thread>
#include <vector>

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

// A question to the store about one session. Whoever asked reads the answer once `done` is true.
struct SessionLookup {
  static constexpr int64_t kTurnOnly = std::numeric_limits<int64_t>::max();

  std::string id;
  int64_t known_turn = 0;  // the state is wanted when it is newer; kTurnOnly: never
  std::atomic<bool> done = false;

  Status status;     // why the store did not answer
  int64_t turn = 0;  // the newest there, 0: none
  std::optional<StateBlob> state;
};

class StoreCourier {
 public:
  StoreCourier(std::unique_ptr<SessionStore> store, std::string fingerprint);
  ~StoreCourier();  // writes what is queued, then stops

  // `news` is called, on the courier's thread, after a lookup was answered or the fate of turns has become
  // known. Set it before the first of them.
  void on_news(std::function<void()> news);

  // Other processes commit sessions there, too.
  bool shared() const { return shared_; }

  // Queues a session's newest state; an older one still queued is dropped. Never blocks on the store.
  TurnTicket put(SessionWrite write);
  // Never blocks either; what is queued counts as stored.
  void ask(std::shared_ptr<SessionLookup> lookup);

  // The following block on the store.
  Result<std::optional<StateBlob>> load(const std::string& id);  // what is queued, or else stored
  Result<int64_t> newest_turn(const std::string& id);            // 0: there is none
  Result<int64_t> erase(const std::string& id, bool and_branches);
  Result<std::vector<StoredSession>> list();
  // Waits until everything queued so far was tried.
  void flush();

  int64_t failures() const { return failures_; }

 private:
  struct Parcel {
    std::shared_ptr<const StateBlob> blob;
    std::shared_ptr<std::atomic<TurnFate>> fate;
  };
  using Parcels = std::map<std::string, Parcel>;
  using Lock = std::unique_lock<std::mutex>;

  void run();
  void wait_for_work(Lock& lock);
  void answer_lookups(Lock& lock);
  void answer(SessionLookup& lookup);
  void write_queued(Lock& lock);
  void settle(const Result<std::vector<std::string>>& refused);
  std::shared_ptr<const StateBlob> on_its_way(const std::string& id) const;

  const std::unique_ptr<SessionStore> store_;
  const bool shared_;
  const std::string fingerprint_;
  std::mutex store_mutex_;  // the store is used by one thread at a time
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> news_;
  std::vector<std::shared_ptr<SessionLookup>> lookups_;
  Parcels queued_;   // waiting
  Parcels writing_;  // in the transaction under way
  std::chrono::steady_clock::time_point retry_at_{};
  bool stopping_ = false;
  std::atomic<int64_t> failures_ = 0;
  std::thread thread_;
};

}  // namespace fulmar
