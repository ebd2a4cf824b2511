// All tokens of a vocabulary in one tree by their bytes, so that one walk tells which of them an automaton
// takes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "text/tokenizer.h"

namespace fulmar {

// Immutable once built.
class TokenTree {
 public:
  // Errors (unsupported): a byte of JSON text that is no token by itself; an automaton could then be stuck.
  static Result<TokenTree> make(const Tokenizer& tokenizer);

  // Sets the bits (see TokenMask) of the tokens of which every byte goes on from `state`. The steps of the
  // automaton may cost kMaxMarkCost together, each counted once: where they cost more, longer tokens are left
  // out, and those of one byte never. What is marked depends on the grammar and the state alone. Returns the
  // work: that cost, and the nodes that were visited.
  size_t mark(Automaton& automaton, Automaton::State state, std::span<uint64_t> allowed) const;
  static const size_t kMaxMarkCost;
  size_t words() const { return words_; }

 private:
  void mark_tokens(size_t node, std::span<uint64_t> allowed) const;

  // In the order of a walk that visits a parent before its children.
  struct Node {
    int32_t past = 0;    // the first node outside of this one's subtree
    int32_t tokens = 0;  // into tokens_: those that end here lie up to the next node's
    uint16_t depth = 0;  // bytes up to this one, counted from 1
    uint8_t byte = 0;
  };

  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  size_t words_ = 0;
  size_t deepest_ = 0;
};

}  // namespace fulmar
