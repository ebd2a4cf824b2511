// Grammar-constrained decoding: a finished grammar bound to a vocabulary, and the tokens that each row may
// take next. Rows with the same grammar share what was computed.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/token_tree.h"

namespace fulmar {

// Thread-safe. Remembers the latest kMaxMasks masks, by what states accept next.
class Constraint {
 public:
  using State = Automaton::State;
  using Mask = std::shared_ptr<const std::vector<uint64_t>>;
  static constexpr size_t kMaxMasks = 128;
  // Rows that walk an automaton with more states leave it, and new rows begin with a fresh one.
  static constexpr size_t kMaxStates = 4096;

  Constraint(Automaton automaton, std::shared_ptr<const TokenTree> tree)
      : automaton_(std::move(automaton)), tree_(std::move(tree)) {
    count();
  }

  // Returns the tokens that may follow; at least one, unless `final`. Empty: all of them, as in most states
  // of a free text. Adds to `work` the cost of TokenTree::mark, nothing where the mask is remembered.
  Mask allowed(State state, size_t& work);
  bool remembers(State state);
  // Returns TokenTree::forced for the state.
  std::optional<int32_t> forced(State state);
  // Returns the state after the bytes; kDead when one of them does not fit.
  State advance(State state, std::string_view bytes);
  bool accepting(State state);
  bool final(State state);
  // Returns whether any bytes may follow, and the text may end.
  bool free(State state);
  // Returns whether it has too many states. Takes no lock.
  bool full() const { return states_.load(std::memory_order_relaxed) > kMaxStates; }
  // Returns the approximate bytes of memory held; they grow with use. Takes no lock.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Returns a constraint that begins at `state` and has computed nothing yet.
  std::shared_ptr<Constraint> rooted_at(State state);

 private:
  void count();
  bool is_free(State state);

  std::mutex mutex_;
  std::atomic<size_t> states_{0};  // of the automaton
  std::atomic<size_t> bytes_{0};
  Automaton automaton_;
  const std::shared_ptr<const TokenTree> tree_;
  using Masks = std::list<std::pair<int32_t, Mask>>;  // by Automaton::near_future
  Masks masks_;                                       // the latest first
  std::unordered_map<int32_t, Masks::iterator> mask_of_;
};

// One row's position in a constraint.
class ConstraintWalk {
 public:
  // Begins a row. `stop`: the token that may end it where the text is complete; nothing: it ends by itself.
  ConstraintWalk(std::shared_ptr<Constraint> constraint, const Tokenizer& tokenizer,
                 std::optional<int32_t> stop)
      : constraint_(std::move(constraint)), tokenizer_(tokenizer), stop_(stop) {}

  // Returns a bit per id; valid until the next call.
  std::span<const uint64_t> allowed();
  // Returns whether allowed() needs no computation.
  bool ready() const { return mask_ || state_ == Automaton::kDead || remembered(); }
  // Computes what allowed() returns; returns the work, see Constraint::allowed.
  size_t prepare();
  // Returns the next token where the grammar leaves no choice; see TokenTree::forced.
  std::optional<int32_t> forced();
  void accept(int32_t token);
  bool complete() const;
  // Returns whether the stop id ends the row here. Where a free text has turned into a constrained one, only
  // the token that may end it does.
  bool heeds(int32_t stop) const { return !bound_ || stop == stop_; }

 private:
  void leave_full();
  bool remembered() const { return !constraint_->full() && constraint_->remembers(state_); }

  std::shared_ptr<Constraint> constraint_;
  const Tokenizer& tokenizer_;
  const std::optional<int32_t> stop_;
  Constraint::State state_ = 0;
  bool bound_ = false;                            // the text was free and has become constrained
  Constraint::Mask mask_;                         // of the state; null: not yet asked for
  std::optional<std::optional<int32_t>> forced_;  // of the state; the outer one empty: not yet asked for
  std::vector<uint64_t> with_stop_;
};

}  // namespace fulmar
