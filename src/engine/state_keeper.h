// Owns the states of sequences and their copies: slots, sessions, prefix snapshots, tuned states, and rewind
// points, from which a session drops a stop text. The engine thread owns it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/prefix_cache.h"
#include "cache/session_shelf.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "model/model.h"
#include "model/state_pool.h"

namespace fulmar {

// What an ended row still waits for.
enum class Closing : uint8_t {
  done,     // nothing: its slot and its session are free
  feeding,  // tokens have to be fed before its session can be committed; then close() again
  storing,  // its slot is free, its turn is on the way to a shared store
};

class StateKeeper {
 public:
  static Result<std::unique_ptr<StateKeeper>> make(Model& model, const EngineOptions& options,
                                                   std::shared_ptr<SessionLadder> sessions);

  StatePool& pool() { return pool_; }
  int64_t free_slots() const { return static_cast<int64_t>(free_slots_.size()); }

  // Returns whether this row could start now. False while its session is in use or being looked up in the
  // store, or while a running row is about to compute a prefix of its prompt (then that row will save a
  // snapshot there).
  bool ready_to_start(Sequence& sequence, std::span<const std::unique_ptr<Sequence>> running);

  // Gives the row a slot (one must be free) with its first state, and sets what is left to feed.
  Status start(Sequence& sequence);
  // Saves the snapshots that are due. Call after each step that fed the row.
  void after_feed(Sequence& sequence);
  // Keeps a rewind point while a stop text may have begun. Call after the tokens drawn by a step.
  void after_draw(Sequence& sequence);
  // Rolls the state back to `drawn` drawn tokens; later ones were fed as drafts by the row's last step.
  void roll_back(Sequence& sequence, size_t drawn);
  // Undoes a step that was begun for the row but fed it nothing, because its last id has ended it.
  void was_not_fed(const Sequence& sequence) { pool_.return_to_mark(sequence.slot); }
  // Returns the most rows of one step and sequence that may be rolled back, plus the first; 0: none.
  int64_t revocable_rows() const { return most_revocable(pool_.ring()); }
  // Returns how many tokens prefill may feed before the next snapshot is due; 0: no limit.
  int64_t until_snapshot(const Sequence& sequence) const;

  // Commits the session of an ended row, unless tokens are still to be fed.
  Closing close(Sequence& sequence);
  // Returns whether a `storing` row may end: the store has its turn, has refused it (the row then ends as
  // failed), has failed, or has taken too long (then this worker alone has the turn).
  bool may_end(Sequence& sequence);
  // Frees slot, rewind point and session; commits nothing.
  void release(Sequence& sequence);

  // Takes out a running row's state, to pause it.
  std::vector<std::byte> take_out(Sequence& sequence);
  // Restores it. `claim`: to the session that the row will write to; null: it writes to none.
  Status put_back(Sequence& sequence, std::span<const std::byte> state, SessionClaimPtr claim);

  SessionShelf& sessions() { return sessions_; }
  PrefixCache& prefixes() { return prefixes_; }
  Status add_states(const std::map<std::string, Engine::StateNumbers>& states);
  bool remove_state(const std::string& name);
  std::vector<std::string> states() const;
  void add_to(EngineStats& stats);

 private:
  // Ranges of the pool's slots by use.
  struct Shares {
    std::vector<int64_t> sequences, rewinds, sessions, prefixes;
  };
  StateKeeper(StatePool pool, Shares shares, const EngineOptions& options,
              std::shared_ptr<SessionLadder> sessions);

  PrefixRoot prefix_root(const Sequence& sequence) const;
  bool session_ready(Sequence& sequence);
  bool looked_up(std::shared_ptr<SessionLookup>& lookup, const std::string& id, bool with_state);
  Result<bool> start_from_session(Sequence& sequence);
  Status start_fresh(Sequence& sequence);
  Status start_mixture(Sequence& sequence);
  int64_t take_slot();
  Status set_first_state(int64_t slot, const std::string& tuned);
  void follow(Sequence& sequence, Sequence& leader, size_t shared);
  void take_rewind_point(Sequence& sequence);
  void drop_rewind_point(Sequence& sequence);
  void release_slot(Sequence& sequence);
  void rewind(Sequence& sequence);
  // Returns the last end of a piece up to this position, where prompts are fed in pieces.
  size_t piece_end(size_t position) const { return piece_ == 0 ? position : position - position % piece_; }
  void keep_piece_ends(Sequence& sequence) const;
  void settle(int64_t slot);

  StatePool pool_;
  std::vector<int64_t> free_slots_;
  std::vector<int64_t> free_rewinds_;
  const bool prefixes_on_;
  const bool share_prefixes_;  // across owners
  const size_t piece_;         // of a prompt; 0: prompts are cut anywhere
  SessionShelf sessions_;
  PrefixCache prefixes_;
  const std::chrono::milliseconds store_patience_;
  std::map<std::string, std::vector<std::byte>> tuned_;  // bytes of slots
  int64_t hits_device_ = 0, hits_host_ = 0, hits_store_ = 0;
  int64_t unconfirmed_ = 0, store_failures_ = 0;
};

}  // namespace fulmar
