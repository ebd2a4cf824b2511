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

// Without states that no accepted string goes through.
class TextAutomaton {
 public:
  // Every string.
  static TextAutomaton any();
  // The strings in which the pattern is found (it is not anchored by itself). Errors: those of the budget;
  // unsupported, for a lookahead within what repeats without end.
  static Result<TextAutomaton> of_pattern(const Pattern& pattern, Budget& budget);

  // The strings that the pattern matches from end to end.
  static Result<TextAutomaton> of_whole_pattern(Pattern pattern, Budget& budget);

  // Returns the strings that both take, and those that this one takes and `other` does not.
  Result<TextAutomaton> both(const TextAutomaton& other, Budget& budget) const;
  Result<TextAutomaton> without(const TextAutomaton& other, Budget& budget) const;
  // Returns those of its strings that have `least` to `most` code points; most < 0: any number.
  Result<TextAutomaton> of_length(int64_t least, int64_t most, Budget& budget) const;

  bool empty() const { return accepting_.empty(); }
  size_t states() const { return accepting_.size(); }
  bool takes(std::string_view utf8) const;
  // The length of the longest string; nothing: there is no bound. Not empty.
  std::optional<int64_t> longest() const;
  // A JSON string, quotes included, in its shortest form, then `next`. Not empty.
  Place quoted(Grammar& grammar, Place next) const;
  // Those of `least` to `most` code points, which are counted as they are written; most < 0: any number.
  // Nothing: there are none. Not empty. Errors: those of Lengths.
  Result<std::optional<Place>> quoted_within(Grammar& grammar, int64_t least, int64_t most, Budget& budget,
                                             Place next) const;
  // The string as it is, then `next`. Not empty.
  Place plain(Grammar& grammar, Place next) const;

 private:
  class Pairs;
  friend class PatternCompiler;

  int32_t symbol_of(uint32_t point) const;
  int32_t after(int32_t state, int32_t symbol) const {
    return next_[static_cast<size_t>(state) * width_ + static_cast<size_t>(symbol)];
  }
  CodePointSet characters(int32_t symbol) const;
  // By state: the fewest characters, all of marked symbols, behind which one of the goals is reached; -1:
  // never.
  std::vector<int32_t> steps_to(const std::vector<bool>& goals, const std::vector<bool>& symbols) const;
  std::vector<int32_t> steps_to_end() const { return steps_to(accepting_, std::vector<bool>(width_, true)); }
  void drop_useless();
  // By state: any Grammar::kFreeCharacters plain characters go on from it.
  std::vector<bool> free_states() const;
  enum class Counting : uint8_t { none, characters };
  // The rule that takes a string: its characters in `form`, then `close`.
  Rule characters_of(Grammar& grammar, CharacterForm form, Counting counting, Place close) const;

  // Code points that no automaton tells apart share a symbol: interval i begins at starts_[i].
  std::vector<uint32_t> starts_;
  std::vector<int32_t> symbols_;  // by interval; -1: no character
  size_t width_ = 0;              // number of symbols
  std::vector<int32_t> next_;     // by state and symbol; -1: none. State 0 is the start.
  std::vector<bool> accepting_;
};

}  // namespace fulmar
