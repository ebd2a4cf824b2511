// Deterministic automata over the code points of whole strings: what `pattern`, `format`, `propertyNames` and
// lengths admit, combined. Knows no keyword.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"
#include "grammar/code_points.h"
#include "grammar/grammar.h"
#include "grammar/pattern.h"

namespace fulmar {

// Has no states through which no accepted string goes.
class TextAutomaton {
 public:
  // Accepts every string.
  static TextAutomaton any();
  // Accepts the strings in which the pattern is found (it is not anchored by itself). Errors: those of the
  // budget; unsupported, for a lookahead inside of what repeats without end.
  static Result<TextAutomaton> of_pattern(const Pattern& pattern, Budget& budget);

  // Accepts the strings that the pattern matches from end to end.
  static Result<TextAutomaton> of_whole_pattern(Pattern pattern, Budget& budget);

  // Returns the strings that both accept, or those that this one accepts and `other` does not.
  Result<TextAutomaton> both(const TextAutomaton& other, Budget& budget) const;
  Result<TextAutomaton> without(const TextAutomaton& other, Budget& budget) const;
  // Returns the strings of this one with `least` to `most` code points; most < 0: any number.
  Result<TextAutomaton> of_length(int64_t least, int64_t most, Budget& budget) const;

  bool empty() const { return accepting_.empty(); }
  size_t states() const { return accepting_.size(); }
  bool takes(std::string_view utf8) const;
  // Returns the length of the longest string; nothing: there is no bound. Not for an empty automaton.
  std::optional<int64_t> longest() const;
  // Takes a JSON string, quotes included, in its shortest form, then `next`. Not for an empty automaton.
  Place quoted(Grammar& grammar, Place next) const;
  // Takes likewise a string of `least` to `most` code points, counted as they are written; most < 0: any
  // number. Nothing: there are none. Not for an empty automaton. Errors: those of Lengths.
  Result<std::optional<Place>> quoted_within(Grammar& grammar, int64_t least, int64_t most, Budget& budget,
                                             Place next) const;
  // Takes the string without quotes and escapes, then `next`. Not for an empty automaton.
  Place plain(Grammar& grammar, Place next) const;

 private:
  class Pairs;
  friend class PatternCompiler;

  int32_t symbol_of(uint32_t point) const;
  int32_t after(int32_t state, int32_t symbol) const {
    return next_[static_cast<size_t>(state) * width_ + static_cast<size_t>(symbol)];
  }
  CodePointSet characters(int32_t symbol) const;
  // Returns by state the fewest characters, all with marked symbols, that lead to one of the goals; -1: none
  // do.
  std::vector<int32_t> steps_to(const std::vector<bool>& goals, const std::vector<bool>& symbols) const;
  std::vector<int32_t> steps_to_end() const { return steps_to(accepting_, std::vector<bool>(width_, true)); }
  void drop_useless();
  // Returns by state whether any Grammar::kFreeCharacters plain characters may follow.
  std::vector<bool> free_states() const;
  enum class Counting : uint8_t { none, characters };
  // Returns the rule that takes a string: its characters in `form`, then `close`.
  Rule characters_of(Grammar& grammar, CharacterForm form, Counting counting, Place close) const;

  // Code points that the automaton does not tell apart share a symbol: interval i begins at starts_[i].
  std::vector<uint32_t> starts_;
  std::vector<int32_t> symbols_;  // by interval; -1: no character
  size_t width_ = 0;              // number of symbols
  std::vector<int32_t> next_;     // by state and symbol; -1: none. State 0 is the start.
  std::vector<bool> accepting_;
};

}  // namespace fulmar
