// Sessions on three levels: device slots, host memory, the store. Least recently used ones move down, a hit
// moves up, and a state is let go on one level only once the next one has it.
//
// The engine thread calls everything; one thread of the ladder's own talks to the store. Trouble there (disk
// full, locked, corrupt) is logged and counted, never fatal: sessions then live in memory.
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
#include "cache/store_writer.h"
#include "ops/ops.h"

namespace fulmar {

struct LadderOptions {
  int64_t host_capacity = 32;                   // sessions in host memory
  std::chrono::milliseconds flush_after{2000};  // a committed turn is in the store at most this much later
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
  SessionLadder(Ops& ops, State state, std::vector<int64_t> device_slots, std::string fingerprint,
                std::unique_ptr<SessionStore> store, const LadderOptions& options);
  ~SessionLadder();  // writes every session that the store does not have, in one transaction

  // Copies the session's state into `slot` and makes it the most recent; tells where it was found. Nothing
  // when the session is unknown.
  Result<std::optional<SessionInfo>> restore(const std::string& id, int64_t slot);
  // Saves what `slot` holds as the session's newest turn.
  void commit(const std::string& id, int64_t slot, int64_t tokens);
  // As commit, from host memory (imports).
  void commit(const std::string& id, std::vector<std::byte> payload, int64_t tokens);
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
  int64_t store_failures() const { return writer_ ? writer_->failures() : 0; }

 private:
  struct Entry {
    int64_t slot = -1;                      // on the device, or
    std::shared_ptr<const StateBlob> host;  // in host memory (also kept while on its way to the store)
    int64_t tokens = 0;
    int64_t turn = 0;
    bool dirty = false;  // the store does not have this turn yet
    std::chrono::steady_clock::time_point committed;
    std::list<std::string>::iterator recency;  // place in devices_ or hosts_
  };

  Entry* find(const std::string& id);
  // Lets go of our copy where another process has taken the session further.
  void forget_if_overtaken(const std::string& id);
  void touch(Entry& entry, const std::string& id);
  int64_t take_device_slot(const std::string& keep);
  void demote_to_host(const std::string& id);
  void trim_host();
  void drop(const std::string& id);
  std::shared_ptr<const StateBlob> host_copy(const Entry& entry);
  void send(const std::string& id, Entry& entry);
  int64_t next_turn(const std::string& id);

  Ops& ops_;
  const State state_;
  std::vector<int64_t> free_slots_;
  const std::string fingerprint_;
  const LadderOptions options_;
  std::unordered_map<std::string, Entry> entries_;
  std::list<std::string> devices_, hosts_;  // most recent first
  std::unique_ptr<StoreWriter> writer_;
};

}  // namespace fulmar
