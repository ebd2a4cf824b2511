// Sessions on three levels: device slots, host memory, the store. Least recently used ones (LRU) move down,
// a hit moves up, and a state is let go on one level only once the next one has it.
//
// Without a store the lowest level loses what it lets go: there, and on the shelves above it, the owner that
// has most on the level gives way first (fair_eviction.h), so that nobody's many sessions push out another's
// few.
//
// There is one ladder for all engines of a process that run the same weights: each has a shelf of its own,
// the first level, and whatever one engine has committed the others go on with. A session is written to by
// one row at a time, which holds its claim. Only its engine's thread touches a shelf's slots; all else any
// thread may call. One thread of the ladder's own talks to the store, and what rows need of it is asked for
// beforehand and answered later. Trouble there (disk full, locked, corrupt) is logged and counted, never
// fatal: sessions then live in memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/session_store.h"
#include "cache/store_courier.h"
#include "ops/slots.h"

namespace fulmar {

// A turn that came too late: what its row ends with.
Error overtaken(const std::string& session);

struct LadderOptions {
  int64_t host_capacity = 32;  // sessions in host memory
  // A committed turn is in a store of our own at most this much later. A shared one gets it at once.
  std::chrono::milliseconds flush_after{2000};
  // Turns wait for a store of our own as they do for a shared one.
  bool durable = false;
  // An answer waits at most this long for the store to have its turn, then goes out all the same.
  std::chrono::milliseconds store_patience{5000};
  CourierOptions store;
  // Called when the ladder ends with turns, erasures or sessions that a store should have and has not, with
  // their number.
  std::function<void(int64_t)> on_lost;
};

struct SessionInfo {
  enum class Level : uint8_t { device, host, store };
  std::string id;
  Level level = Level::store;
  int64_t tokens = 0;
  int64_t turn = 0;
  double updated = 0;  // unix seconds; of the stored copy for level store
  std::string owner;   // told by the engine, which splits ids of the ladder (session_name.h)
};

// The right to write to a session.
struct SessionClaim {
  std::string id;
  std::string owner;                 // on whose account the session is kept
  std::atomic<bool> erased = false;  // the session was, since: nothing may be written any more
};
using SessionClaimPtr = std::shared_ptr<SessionClaim>;

class SessionShelf;

class SessionLadder {
 public:
  // `store` may be null: memory only, and the oldest session is then dropped when memory is full.
  SessionLadder(std::string fingerprint, std::unique_ptr<SessionStore> store, LadderOptions options);
  ~SessionLadder();  // writes every session that the store does not have, in one transaction

  const LadderOptions& options() const { return options_; }

  // Null while somebody holds one. Whoever waits is told when it comes free. `owner`: on whose account the
  // session is kept, for one that the server names; otherwise its name tells.
  SessionClaimPtr claim(const std::string& id, const std::string& owner);
  SessionClaimPtr claim(const std::string& id);
  void release(SessionClaimPtr claim);
  // Takes a session up again whose claim was given back after so many turns: a conflict when it has gone on
  // since, or is in use. Null when it was erased. Blocks on the store.
  Result<SessionClaimPtr> reclaim(const SessionClaim& before, int64_t turn);

  // A session's state with the next turn there is. A conflict while a row holds its claim, an Error where
  // takes_more() is one. Blocks on the store. The ticket as that of a commit.
  Result<TurnTicket> import(const std::string& id, std::vector<std::byte> payload, const StateLayout& layout,
                            int64_t tokens);
  // A copy for export; null when unknown. Blocks on the store and, for a state on a device, until its engine
  // is between two steps: not to be called on an engine's thread.
  Result<std::shared_ptr<const StateBlob>> read(const std::string& id);
  // Erases on every level and returns how many sessions went, with those that a turn has begun and will not
  // write. Blocks on the store. An Error where it cannot tell what it has: nothing is changed then; or where
  // it has not erased yet: it is told again until it has.
  Result<int64_t> erase(const SessionRange& range);
  // The same without waiting for the store or asking it what it has: how many were in memory.
  int64_t erase_soon(const SessionRange& range);
  // In the order of their ids, each session once. Blocks on the store; an Error where it cannot tell, as with
  // contains().
  Result<std::vector<SessionInfo>> list(const SessionQuery& query = {});
  Result<bool> contains(const std::string& id);

  // Sends what host memory has to the store, and waits until it was tried.
  void flush();

  // A resource Error while the store is so far behind that nothing should begin that it must keep.
  Status takes_more() const;
  StoreHealth store_health() const { return courier_ ? courier_->health() : StoreHealth(); }

 private:
  friend class SessionShelf;
  using Lock = std::unique_lock<std::mutex>;

  struct Entry {
    SessionShelf* shelf = nullptr;          // whose slot the state lies in, or
    int64_t slot = -1;                      // that slot
    std::shared_ptr<const StateBlob> host;  // in host memory (also kept while on its way to the store)
    std::string owner;                      // on whose account
    int64_t tokens = 0;
    int64_t turn = 0;
    bool dirty = false;                               // this turn is still to be sent to the store
    TurnTicket ticket;                                // once it was sent
    std::chrono::steady_clock::time_point committed;  // the oldest turn since the last that was sent
    std::list<std::string>::iterator recency;         // place in its shelf's list or in hosts_
  };

  Result<int64_t> newest_turn(const std::string& id);
  // Returns whether a turn goes to the store at once, and its answer waits for that.
  bool sends_at_once() const { return courier_ && (courier_->shared() || options_.durable); }
  // All below under the lock.
  Entry* find(const std::string& id);
  std::list<std::string>& list_of(const Entry& entry);
  void touch(Entry& entry);
  void take_down(Entry& entry, std::shared_ptr<const StateBlob> copy);
  Entry& place_on_host(const std::string& id, std::shared_ptr<const StateBlob> blob);
  const std::string& next_to_leave(const std::list<std::string>& level,
                                   const std::string* newcomer = nullptr) const;
  void trim_host();
  void drop(const std::string& id);
  TurnTicket send(const std::string& id, Entry& entry);
  TurnTicket keep(const std::string& id, Entry& entry);
  std::set<std::string> in_memory(const SessionRange& range) const;
  void forget(const SessionRange& range);
  void forget_swept(const std::vector<StoredSession>& gone);
  void wake_all();
  void watch_lookup(const std::shared_ptr<SessionLookup>& lookup);

  mutable std::mutex mutex_;
  const std::string fingerprint_;
  const LadderOptions options_;
  std::unordered_map<std::string, Entry> entries_;
  std::list<std::string> hosts_;  // most recent first
  std::vector<SessionShelf*> shelves_;
  std::map<std::string, SessionClaimPtr> held_;
  std::vector<std::weak_ptr<SessionClaim>> claims_;    // held and given back: an erasure concerns both
  std::vector<std::weak_ptr<SessionLookup>> lookups_;  // whose answers an erasure makes void
  int64_t lost_ = 0;                                   // turns that went with a device
  int64_t told_failures_ = 0;                          // of the courier's, by take_store_failures()
  std::unique_ptr<StoreCourier> courier_;
};

}  // namespace fulmar
