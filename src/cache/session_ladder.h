// Sessions on three tiers: device slots, host memory, the store. Least recently used ones (LRU) move down,
// a hit moves up, and a state is released on one tier only once the next one has it.
//
// Without a store the lowest tier loses what it evicts: there, and on the shelves above it, the owner that
// has most on the tier loses first (fair_eviction.h), so that one owner's many sessions do not evict
// another's few.
//
// All engines of a process that run the same weights share one ladder. Each has a shelf, its device tier,
// and any engine can continue what another has committed. One row at a time writes to a session: the one
// that holds its claim. Only its engine's thread touches a shelf's slots; any thread may call everything
// else. One thread of the ladder talks to the store; rows ask it in advance and get the answer later.
// Trouble there (disk full, locked, corrupt) is logged and counted, never fatal: sessions then stay in
// memory.
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
#include "cache/write_behind_queue.h"
#include "ops/slots.h"

namespace fulmar {

// Returns the error of a row whose turn came too late.
Error overtaken(const std::string& session);

struct LadderOptions {
  int64_t host_capacity = 32;  // sessions in host memory
  // A store of our own gets a committed turn at most this much later; a shared one at once.
  std::chrono::milliseconds flush_after{2000};
  // Waits for a store of our own with each turn, as for a shared one.
  bool durable = false;
  // An answer waits at most this long for the store to have its turn, then is sent anyway.
  std::chrono::milliseconds store_patience{5000};
  WriteBehindOptions store;
  // Called when the ladder ends with turns, erasures or sessions that a store should have and does not, with
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
  std::atomic<bool> erased = false;  // the session was erased since: nothing more may be written
};
using SessionClaimPtr = std::shared_ptr<SessionClaim>;

class SessionShelf;

class SessionLadder {
 public:
  // Makes a ladder. `store` may be null: memory only; the oldest session is then dropped when memory is full.
  SessionLadder(std::string fingerprint, std::unique_ptr<SessionStore> store, LadderOptions options);
  ~SessionLadder();  // writes every session that the store does not have, in one transaction

  const LadderOptions& options() const { return options_; }

  // Claims a session; null while another claim is held, whose release is reported to all shelves. `owner` is
  // whose quota the session counts against, for a session named by the server; otherwise its name tells.
  SessionClaimPtr claim(const std::string& id, const std::string& owner);
  SessionClaimPtr claim(const std::string& id);
  void release(SessionClaimPtr claim);
  // Claims a session again after its claim was released at turn `turn`. Error conflict: it has advanced
  // since, or is in use. Null when it was erased. Blocks on the store.
  Result<SessionClaimPtr> reclaim(const SessionClaim& before, int64_t turn);

  // Stores a state as the session's next turn; `adapter` as in StateBlob. Errors: conflict while a row holds
  // its claim; that of takes_more(). Blocks on the store. The ticket is as that of a commit.
  Result<WriteTicket> import(const std::string& id, std::vector<std::byte> payload, const StateLayout& layout,
                             int64_t tokens, const std::string& adapter = {});
  // Returns a copy for export; null when the session is unknown. Blocks on the store and, for a state on a
  // device, until its engine is between two steps: not to be called on an engine's thread.
  Result<std::shared_ptr<const StateBlob>> read(const std::string& id);
  // Erases sessions on every tier and returns how many, including those whose first turn is running or
  // paused, which will not be written. Blocks on the store. Error: the store cannot say what it has, and
  // nothing is changed; or it has not erased yet, and is asked again until it has.
  Result<int64_t> erase(const SessionRange& range);
  // Erases likewise, without waiting for the store or asking what it has. Returns how many were in memory.
  int64_t erase_soon(const SessionRange& range);
  // Returns sessions in the order of their ids, each once. Blocks on the store. Error, also of contains():
  // the store cannot say what it has.
  Result<std::vector<SessionInfo>> list(const SessionQuery& query = {});
  Result<bool> contains(const std::string& id);

  // Sends what host memory has to the store, and waits until that was tried.
  void flush();

  // Returns a resource Error while the store is so far behind that nothing should begin that it must keep.
  Status takes_more() const;
  StoreHealth store_health() const { return writes_ ? writes_->health() : StoreHealth(); }

 private:
  friend class SessionShelf;
  using Lock = std::unique_lock<std::mutex>;

  struct Entry {
    SessionShelf* shelf = nullptr;          // whose slot has the state, or
    int64_t slot = -1;                      // that slot
    std::shared_ptr<const StateBlob> host;  // in host memory (also kept while on its way to the store)
    std::string owner;                      // on whose account
    std::string adapter;                    // as in StateBlob
    int64_t tokens = 0;
    int64_t turn = 0;
    bool dirty = false;                               // this turn is still to be sent to the store
    WriteTicket ticket;                               // once it was sent
    std::chrono::steady_clock::time_point committed;  // the oldest turn since the last that was sent
    std::list<std::string>::iterator recency;         // place in its shelf's list or in hosts_
  };

  Result<int64_t> newest_turn(const std::string& id);
  // Returns whether a turn goes to the store at once, and its answer waits for that.
  bool sends_at_once() const { return writes_ && (writes_->shared() || options_.durable); }
  // Returns the entry of a session, or null. The lock must be held for this and all that follow.
  Entry* find(const std::string& id);
  std::list<std::string>& list_of(const Entry& entry);
  void touch(Entry& entry);
  void take_down(Entry& entry, std::shared_ptr<const StateBlob> copy);
  Entry& place_on_host(const std::string& id, std::shared_ptr<const StateBlob> blob);
  const std::string& choose_victim(const std::list<std::string>& level,
                                   const std::string* newcomer = nullptr) const;
  void trim_host();
  void drop(const std::string& id);
  WriteTicket send(const std::string& id, Entry& entry);
  WriteTicket keep(const std::string& id, Entry& entry);
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
  int64_t reported_failures_ = 0;                      // of the queue's, by take_store_failures()
  std::unique_ptr<WriteBehindQueue> writes_;
};

}  // namespace fulmar
