// All tokens of a vocabulary in one tree by their bytes: one walk finds those that an automaton
// accepts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "text/tokenizer.h"

namespace fulmar {

// Immutable once built.
class TokenTree {
 public:
  // Builds the tree. Error unsupported: a byte of JSON text is no token, so an automaton could get stuck.
  static Result<TokenTree> make(const Tokenizer& tokenizer);

  // Sets the bits (see TokenMask) of the tokens all of whose bytes may follow `state`. The automaton's steps,
  // each counted once, may cost kMaxMarkCost together; beyond that longer tokens are left out, but never
  // those of one byte. The result depends on the grammar and the state alone. Returns the work: that cost
  // plus the nodes visited.
  size_t mark(Automaton& automaton, Automaton::State state, std::span<uint64_t> allowed) const;
  static const size_t kMaxMarkCost;
  // Sets the bits of the tokens that mark() never considers: those without bytes, and those with too
  // many.
  void mark_others(std::span<uint64_t> allowed) const;
  // Returns the next token if only one text can follow `state`, in the tokenizer's own (greedy) division.
  // Nothing where several texts can follow, or where the token depends on what follows that text: where a
  // longer token that the grammar accepts reaches beyond its end. Depends on the grammar and the state alone.
  std::optional<int32_t> forced(Automaton& automaton, Automaton::State state) const {
    return all_.forced(automaton, state);
  }
  // The most that may be spent to find that no longer token is accepted; beyond that one counts as accepted.
  static constexpr size_t kMaxForcedCost = 20'000;
  size_t words() const { return words_; }

 private:
  // In the order of a walk that visits a parent before its children.
  struct Node {
    int32_t past = 0;    // the first node outside of this one's subtree
    int32_t tokens = 0;  // into Tree::tokens: those that end here lie up to the next node's
    uint16_t depth = 0;  // bytes up to this one, counted from 1
    uint8_t byte = 0;
    bool plain_below = true;  // what follows in all tokens below is plain characters, kFreeCharacters at most
  };
  struct VocabularyToken {
    std::string_view bytes;
    int32_t id = 0;
  };
  struct Tree {
    std::vector<Node> nodes;  // and one more, which bounds the tokens of the last
    std::vector<int32_t> tokens;
    size_t deepest = 0;

    // Sets the bits of the tokens that end at the nodes from `node` up to `past`.
    void mark_tokens(size_t node, size_t past, std::span<uint64_t> allowed) const;
    size_t mark(Automaton& automaton, Automaton::State state, std::span<uint64_t> allowed) const;
    std::optional<int32_t> forced(Automaton& automaton, Automaton::State state) const;
    bool takes_any(Automaton& automaton, Automaton::State state, size_t from, size_t past) const;
  };
  static Tree tree_of(const std::vector<VocabularyToken>& entries);

  // The most characters of the tokens in free_.
  static constexpr auto kFreeCharacters = static_cast<size_t>(Automaton::kFreeCharacters);

  Tree all_;
  // Tokens made only of plain characters (whole ones of UTF-8; see is_plain) may follow wherever a text is
  // free: bits by the number of their characters at most. The tree holds the others.
  std::array<std::vector<uint64_t>, kFreeCharacters> free_;
  Tree not_free_;
  std::vector<uint64_t> others_;  // those in no tree, and the bits after the last token
  size_t words_ = 0;
};

}  // namespace fulmar
