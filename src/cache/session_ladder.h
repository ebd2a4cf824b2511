// Sessions on three levels: device slots, host memory, the store. Least recently used ones move down, a hit
// moves up, and a state is let go on one level only once the next one has it.
//
// The engine thread calls everything; one thread of the ladder's own talks to the store, and what rows need
// of it is asked for beforehand and answered later. Trouble there (disk full, locked, corrupt) is logged and
// counted, never fatal: sessions then live in memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
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
  // An answer waits at most this long for the shared store to have its turn, then goes out all the same.
  std::chrono::milliseconds store_patience{5000};
};

struct SessionInfo {
  enum class Level : uint8_t { device, host, store };
  std::string id;
  Level level = Level::store;
  int64_t tokens = 0;
  int64_t turn = 0;
  double updated = 0;  // unix seconds; of the stored copy for level store
};

class SessionLadder {
 public:
  // `device_slots` are slots of `state` that belong to the ladder (its first level); `store` may be null:
  // memory only, and the oldest session is then dropped when memory is full.
  SessionLadder(Slots& slots, State state, std::vector<int64_t> device_slots, std::string fingerprint,
                std::unique_ptr<SessionStore> store, const LadderOptions& options);
  ~SessionLadder();  // writes every session that the store does not have, in one transaction

  // Called on another thread when a lookup was answered or a ticket has changed.
  void on_news(std::function<void()> news);

  // Asks the store what memory cannot answer about a session; done at once where nothing is to be asked. Rows
  // need the state to continue a session, its turn alone to write to one.
  std::shared_ptr<SessionLookup> look_up(const std::string& id, bool with_state);
  // False once what the lookup took for granted has left memory: then look up again.
  bool holds(const SessionLookup& lookup);
  // The session's newest turn, 0 when there is none or when nobody can tell.
  int64_t newest_turn(const SessionLookup& lookup);

  // Copies the state of the session looked up into `slot` and makes it the most recent; tells where it was
  // found. Nothing when the session is unknown.
  Result<std::optional<SessionInfo>> restore(SessionLookup& lookup, int64_t slot);
  // Saves what `slot` holds as the session's turn number `turn`. The ticket tells how that fares in a shared
  // store; null: there is nothing to wait for. A conflict when memory has that turn or a later one.
  Result<TurnTicket> commit(const std::string& id, int64_t slot, int64_t tokens, int64_t turn);
  // As commit, from host memory and with the next turn there is (imports). Blocks on the store.
  // The ticket as above.
  TurnTicket import(const std::string& id, std::vector<std::byte> payload, int64_t tokens);
  // A copy for export; nothing when unknown.
  Result<std::optional<StateBlob>> read(const std::string& id);
  // How many sessions went, on whatever level; `and_branches` takes "<id>:..." as well.
  int64_t erase(const std::string& id, bool and_branches);
  // Hottest level first, newest first within one; each session once.
  std::vector<SessionInfo> list();
  bool contains(const std::string& id);

  // Sends turns to the store that are due; call it between steps. Returns when the next one will be due.
  std::optional<std::chrono::steady_clock::time_point> tick(std::chrono::steady_clock::time_point now);
  // Waits until the store has everything.
  void flush();
  int64_t device_count() const { return static_cast<int64_t>(devices_.size()); }
  int64_t host_count() const { return static_cast<int64_t>(hosts_.size()); }
  // Writes that the store refused so far.
  int64_t store_failures() const { return courier_ ? courier_->failures() : 0; }

 private:
  struct Entry {
    int64_t slot = -1;                      // on the device, or
    std::shared_ptr<const StateBlob> host;  // in host memory (also kept while on its way to the store)
    int64_t tokens = 0;
    int64_t turn = 0;
    bool dirty = false;                               // this turn is still to be sent to the store
    TurnTicket ticket;                                // once it was sent
    std::chrono::steady_clock::time_point committed;  // the oldest turn since the last that was sent
    std::list<std::string>::iterator recency;         // place in devices_ or hosts_
  };

  Entry* find(const std::string& id);
  Entry& place_on_host(const std::string& id, std::shared_ptr<const StateBlob> blob);
  bool place_on_device(const std::string& id, int64_t slot);
  void touch(Entry& entry, const std::string& id);
  int64_t take_device_slot(const std::string& keep);
  void demote_to_host(const std::string& id);
  void trim_host();
  void drop(const std::string& id);
  std::shared_ptr<const StateBlob> host_copy(const Entry& entry);
  TurnTicket send(const std::string& id, Entry& entry);
  TurnTicket keep(const std::string& id, Entry& entry);
  std::shared_ptr<StateBlob> blob_of(int64_t tokens, int64_t turn) const;

  Slots& slots_;
  const State state_;
  std::vector<int64_t> free_slots_;
  const std::string fingerprint_;
  const LadderOptions options_;
  std::unordered_map<std::string, Entry> entries_;
  std::list<std::string> devices_, hosts_;  // most recent first
  std::unique_ptr<StoreCourier> courier_;
};

}  // namespace fulmar
