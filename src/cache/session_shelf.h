// One engine's side of the session ladder: the device slots in which it keeps sessions, and the way from
// there into the slots of rows and back. The engine's thread calls everything.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/session_ladder.h"

namespace fulmar {

class SessionShelf {
 public:
  // `slots` of the device belong to the shelf. `news` is called on any thread when a lookup was answered, a
  // ticket has changed, a claim came free, or another engine wants a session: serve() then.
  SessionShelf(StateSlots& device, std::vector<int64_t> slots, std::shared_ptr<SessionLadder> ladder);
  ~SessionShelf();  // leave()
  SessionShelf(const SessionShelf&) = delete;
  SessionShelf& operator=(const SessionShelf&) = delete;

  void on_news(std::function<void()> news);
  SessionLadder& ladder() { return *ladder_; }
  const SessionLadder& ladder() const { return *ladder_; }

  // Asks what can be known about a session; done at once where nothing is to be asked of others. Rows need
  // the state to continue a session, its turn alone to write to one.
  std::shared_ptr<SessionLookup> look_up(const std::string& id, bool with_state);
  // False once what the lookup took for granted is no more: then look up again.
  bool holds(SessionLookup& lookup);
  // The session's newest turn, 0 when there is none or when nobody can tell.
  int64_t newest_turn(const SessionLookup& lookup);

  // Copies the state of the session looked up into `slot` and makes it the most recent; tells where it was
  // found. Nothing when the session is unknown.
  Result<std::optional<SessionInfo>> restore(SessionLookup& lookup, int64_t slot);
  // Saves what `slot` holds as turn number `turn` of the session claimed. The ticket tells how that fares in
  // a shared store; null: there is nothing to wait for, or the session was erased. A conflict when memory has
  // that turn or a later one.
  Result<TurnTicket> commit(const SessionClaim& claim, int64_t slot, int64_t tokens, int64_t turn);

  // Hands over what other engines want; call it between steps.
  void serve();
  // Sends turns to the store that are due; call it between steps. Returns when the next one will be due.
  std::optional<std::chrono::steady_clock::time_point> tick(std::chrono::steady_clock::time_point now);
  // Gives all sessions to the ladder: the engine ends.
  void leave();
  // The device is lost, and what lies there with it: all, or what an exception kept leave() from reading.
  void abandon();

  int64_t count() const;  // sessions on the shelf
  // What a ladder has once: its first shelf tells the sessions in host memory, the others 0, and each failed
  // write of the store is told to one shelf, so that sums over the ladder's engines are true.
  int64_t host_count() const;
  int64_t take_store_failures();

 private:
  friend class SessionLadder;
  using Entry = SessionLadder::Entry;
  using Lock = SessionLadder::Lock;

  // A session of this shelf, whose state is read from the device without the ladder's lock: reading takes
  // milliseconds, and other threads want the lock. They may erase or replace the session meanwhile, and never
  // touch its slot: only this engine's thread writes there.
  struct Read {
    std::string id;
    int64_t slot, tokens, turn;
    std::shared_ptr<const StateBlob> state = nullptr;
  };
  std::shared_ptr<const StateBlob> read(int64_t slot, int64_t tokens, int64_t turn) const;
  // Both give the lock back for as long as they read.
  Entry* read_unlocked(Lock& lock, Read& wanted) const;
  // `owner`: of the session that wants it.
  void make_room(Lock& lock, const std::string& id, const std::string& owner);

  // All below under the ladder's lock.
  static Read read_of(const std::string& id, const Entry& entry) {
    return {.id = id, .slot = entry.slot, .tokens = entry.tokens, .turn = entry.turn};
  }
  Entry* still_here(const Read& read) const;
  TurnTicket keep(const std::string& id, Entry& entry, std::shared_ptr<const StateBlob> state);
  Result<std::shared_ptr<const StateBlob>> in_layout(std::shared_ptr<const StateBlob> blob) const;
  bool place(const std::string& id, int64_t slot);
  void answer_wanted(Lock& lock);

  StateSlots& device_;
  const bool has_slots_;
  const std::shared_ptr<SessionLadder> ladder_;
  std::vector<int64_t> free_slots_;
  std::list<std::string> recency_;                      // most recent first
  std::vector<std::shared_ptr<SessionLookup>> wanted_;  // by others
  std::function<void()> news_;
};

}  // namespace fulmar
