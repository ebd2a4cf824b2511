// Write-behind: the one thread that uses a SessionStore. It writes the newest states and answers the engine's
// questions, so that the engine never waits. States not yet written can still be read.
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

// The progress of writing a turn to the store.
enum class WriteStatus : uint8_t {
  under_way,
  stored,
  kept,     // the store failed; the state stays with us and is tried again
  refused,  // somebody else has committed this turn or a later one
};
using WriteTicket = std::shared_ptr<const std::atomic<WriteStatus>>;

// A question about one session. The asker reads the answer once `done` is true, for which it can wait.
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

struct WriteBehindOptions {
  // The most bytes of states that wait for the store; full() beyond. More is still accepted: nothing that was
  // answered is dropped.
  int64_t most_bytes = int64_t{1} << 30;
  std::chrono::milliseconds sweep_every{60'000};  // SessionStore::sweep(); the first one at once
  // How long close() keeps trying after its second try.
  std::chrono::milliseconds last_tries{0};
};

// The health of the store.
struct StoreHealth {
  int64_t failures = 0;       // writes and reads that have failed
  int64_t waiting_bytes = 0;  // of states that it has not yet
  std::string trouble;        // why it has failed, if it has not worked since; else empty
};

class WriteBehindQueue {
 public:
  WriteBehindQueue(std::unique_ptr<SessionStore> store, std::string fingerprint,
                   WriteBehindOptions options = {});
  ~WriteBehindQueue();  // close()

  // Sets `news`, to be called on the queue's thread after a lookup was answered or the status of turns is
  // known. Call this before the first of them.
  void on_news(std::function<void()> news);
  // Sets `swept`, to be called likewise with what the store has erased by itself.
  void on_sweep(std::function<void(const std::vector<StoredSession>&)> swept);

  // Returns whether other processes commit sessions there, too.
  bool shared() const { return shared_; }

  // Queues a session's newest state, without waiting for the store (nor do the next two); an older one still
  // queued is dropped. All answers count what is queued as done.
  WriteTicket put(SessionWrite write);
  // Queues an erasure, which comes before all states that are put later and is tried until it succeeds. Its
  // ticket then becomes `stored`; `kept` when the store has failed.
  WriteTicket erase(SessionRange range);
  void ask(std::shared_ptr<SessionLookup> lookup);

  // Reads from the store; this and the following block on it.
  Result<std::shared_ptr<const StateBlob>> load(const std::string& id);  // null: there is none
  Result<int64_t> newest_turn(const std::string& id);                    // 0: there is none
  // Returns sessions in the order of their ids. While the store fails to answer, health() says so.
  Result<std::vector<StoredSession>> list(const SessionQuery& query);
  // Waits until everything queued so far was tried.
  void flush();
  // Tries what is queued at least twice, and for `last_tries` if that fails, then stops. Returns how many
  // turns and erasures have not reached the store plus how many sessions it has lost.
  int64_t close();

  // Returns whether so much waits that nothing should begin that adds to it.
  bool full() const { return waiting_bytes_ > options_.most_bytes; }
  StoreHealth health() const;

 private:
  using StatusCell = std::shared_ptr<std::atomic<WriteStatus>>;
  using Clock = std::chrono::steady_clock;
  struct PendingWrite {
    std::shared_ptr<const StateBlob> blob;
    std::string owner;
    StatusCell status;
    uint64_t number = 0;             // in the order in which they were put
    Clock::time_point not_before{};  // after a failure of its own
  };
  struct Erasure {
    SessionRange range;
    StatusCell status;
  };
  using PendingWrites = std::map<std::string, PendingWrite>;
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
  // Returns whether nothing waits to be written; the lock must be held for this and all that follow.
  bool nothing_queued() const { return queued_.empty() && writing_.empty() && erasures_.empty(); }
  Clock::time_point next_try() const;
  std::vector<SessionWrite> take_due(Clock::time_point now);
  bool erase_queued(Lock& lock);
  void write_queued(Lock& lock, Clock::time_point now);
  void sweep(Lock& lock);
  void prepare_last_try(Lock& lock, int tried);
  void store_failed(const Error& error);
  void store_answered();
  void tell_status(const std::string& id, const Result<bool>& outcome);
  void count_waiting();
  // What is queued about a session: a state, its erasure, or nothing.
  struct Queued {
    std::shared_ptr<const StateBlob> blob;
    bool erased = false;
  };
  Queued on_its_way(const std::string& id) const;
  bool erased(const std::string& id) const;

  const std::unique_ptr<SessionStore> store_;
  const bool shared_;
  const std::string fingerprint_;
  const WriteBehindOptions options_;
  std::mutex store_mutex_;  // the store is used by one thread at a time
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> news_;
  std::function<void(const std::vector<StoredSession>&)> swept_;
  std::vector<std::shared_ptr<SessionLookup>> lookups_;
  std::vector<Erasure> erasures_;  // not yet carried out; they go before what is queued
  PendingWrites queued_;           // waiting
  PendingWrites writing_;          // in the transaction under way
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
