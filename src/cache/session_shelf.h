// One engine's side of the session ladder: the device slots in which it keeps sessions, and the copies
// between them and the slots of rows. Only the engine's thread calls it.
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
  // Makes a shelf that owns `slots` of the device. `news` (on_news) is called on any thread when a lookup was
  // answered, a ticket changed, a claim became free, or another engine wants a session: then call serve().
  SessionShelf(StateSlots& device, std::vector<int64_t> slots, std::shared_ptr<SessionLadder> ladder);
  ~SessionShelf();  // leave()
  SessionShelf(const SessionShelf&) = delete;
  SessionShelf& operator=(const SessionShelf&) = delete;

  void on_news(std::function<void()> news);
  SessionLadder& ladder() { return *ladder_; }
  const SessionLadder& ladder() const { return *ladder_; }

  // Asks what is known about a session; done at once where nobody else needs to be asked. A row needs the
  // state to continue a session, only its turn to write to one.
  std::shared_ptr<SessionLookup> look_up(const std::string& id, bool with_state);
  // Returns whether the answer of a lookup is still true; if not, look up again.
  bool holds(SessionLookup& lookup);
  // Returns the session's newest turn, 0 when there is none or it is unknown.
  int64_t newest_turn(const SessionLookup& lookup);

  // Copies the state of the session looked up into `slot`, makes it the most recent, and returns where it was
  // found; nothing when the session is unknown. Error conflict: it was computed with another adapter than
  // `adapter` (StateBlob), or with none.
  Result<std::optional<SessionInfo>> restore(SessionLookup& lookup, int64_t slot,
                                             const std::string& adapter = {});
  // What a state in a slot is.
  struct Made {
    int64_t tokens = 0;
    int64_t turn = 0;
    std::string adapter = {};  // as in StateBlob
  };
  // Saves the state in `slot` as a turn of the claimed session. The ticket tells the progress of the
  // write to a shared store; null: there is nothing to wait for, or the session was erased. Error conflict:
  // memory has that turn or a later one.
  Result<WriteTicket> commit(const SessionClaim& claim, int64_t slot, const Made& made);

  // Gives other engines the sessions that they want; call it between steps.
  void serve();
  // Sends turns that are due to the store; call it between steps. Returns when the next one will be due.
  std::optional<std::chrono::steady_clock::time_point> tick(std::chrono::steady_clock::time_point now);
  // Moves all sessions to the ladder, when the engine ends.
  void leave();
  // Gives up the sessions on a lost device: all, or those that leave() failed to read.
  void abandon();

  int64_t count() const;  // sessions on the shelf
  // Returns figures that a ladder has once: sessions in host memory are reported by its first shelf alone,
  // and each failed write of the store by one shelf, so that sums over the ladder's engines are right.
  int64_t host_count() const;
  int64_t take_store_failures();

 private:
  friend class SessionLadder;
  using Entry = SessionLadder::Entry;
  using Lock = SessionLadder::Lock;

  // A session of this shelf whose state is read from the device without the ladder's lock: reading takes
  // milliseconds, and other threads want the lock. They may erase or replace the session meanwhile, but never
  // touch its slot: only this engine's thread writes there.
  struct Read {
    std::string id;
    int64_t slot;
    Made made;
    std::shared_ptr<const StateBlob> state = nullptr;
  };
  std::shared_ptr<const StateBlob> read(int64_t slot, const Made& made) const;
  // Reads without the lock, which it takes again. Returns null where the session has changed meanwhile.
  Entry* read_unlocked(Lock& lock, Read& wanted) const;
  // Frees a slot, without the lock for as long as it reads; `owner` is that of the session that needs it.
  void make_room(Lock& lock, const std::string& id, const std::string& owner);

  // Returns what to read of a session. The ladder's lock must be held for this and all that follow.
  static Read read_of(const std::string& id, const Entry& entry) {
    return {.id = id, .slot = entry.slot, .made = {entry.tokens, entry.turn, entry.adapter}};
  }
  Entry* still_here(const Read& read) const;
  WriteTicket keep(const std::string& id, Entry& entry, std::shared_ptr<const StateBlob> state);
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
