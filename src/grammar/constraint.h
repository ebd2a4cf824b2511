// Grammar-constrained decoding: a finished grammar bound to a vocabulary, and which tokens may come next, row
// by row. Rows of equal grammars share what has been found out.
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

// Thread-safe. Remembers masks by what states take next, the latest kMaxMasks of them.
class Constraint {
 public:
  using State = Automaton::State;
  using Mask = std::shared_ptr<const std::vector<uint64_t>>;
  static constexpr size_t kMaxMasks = 128;
  // An automaton with more states is left to those that walk it, and new rows begin with a fresh one.
  static constexpr size_t kMaxStates = 4096;

  Constraint(Automaton automaton, std::shared_ptr<const TokenTree> tree)
      : automaton_(std::move(automaton)), tree_(std::move(tree)) {
    count();
  }

  // The tokens that may follow; at least one, unless `final`. Empty: all of them, as mostly where the text is
  // free. Adds to `work` what TokenTree::mark takes, nothing where the mask is remembered.
  Mask allowed(State state, size_t& work);
  bool remembers(State state);
  // See TokenTree::forced.
  std::optional<int32_t> forced(State state);
  // Returns the state behind the bytes; kDead when one does not fit.
  State advance(State state, std::string_view bytes);
  bool accepting(State state);
  bool final(State state);
  // Returns whether any bytes may follow, and the text may end.
  bool free(State state);
  // Waits for nobody.
  bool full() const { return states_.load(std::memory_order_relaxed) > kMaxStates; }
  // What it holds, about; it grows with use. Waits for nobody.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Returns one that begins with `state` and has found out nothing yet.
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

// One row's way through a constraint.
class ConstraintWalk {
 public:
  // `stop`: the token that may end the row wherever the text is complete; nothing: it ends there by itself.
  ConstraintWalk(std::shared_ptr<Constraint> constraint, const Tokenizer& tokenizer,
                 std::optional<int32_t> stop)
      : constraint_(std::move(constraint)), tokenizer_(tokenizer), stop_(stop) {}

  // Bit per id; valid until the next call.
  std::span<const uint64_t> allowed();
  // Whether allowed() has nothing to work out.
  bool ready() const { return mask_ || state_ == Automaton::kDead || remembered(); }
  // Works it out; see Constraint::allowed.
  size_t prepare();
  // The token that the text goes on with, being determined; see TokenTree::forced.
  std::optional<int32_t> forced();
  void accept(int32_t token);
  bool complete() const;
  // Whether the stop id ends the row here. Where a free text has gone over into a constrained one, only the
  // token that may end it does.
  bool heeds(int32_t stop) const { return !bound_ || stop == stop_; }

 private:
  void leave_full();
  bool remembered() const { return !constraint_->full() && constraint_->remembers(state_); }

  std::shared_ptr<Constraint> constraint_;
  const Tokenizer& tokenizer_;
  const std::optional<int32_t> stop_;
  Constraint::State state_ = 0;
  bool bound_ = false;                            // the text was free, and is no longer
  Constraint::Mask mask_;                         // of the state; null: not yet asked for
  std::optional<std::optional<int32_t>> forced_;  // of the state; the outer one empty: not yet asked for
  std::vector<uint64_t> with_stop_;
};

}  // namespace fulmar
