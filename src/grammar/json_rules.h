// JSON's own forms as places of a grammar: compact, without any white space, so that a model cannot lose
// itself in blanks. Knows nothing of schemas.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"

namespace fulmar {

// Of numbers without a bound of their own: whole numbers keep to what every reader holds exactly.
inline constexpr int64_t kLargestWhole = 999'999'999'999'999;

// Behind the point, of numbers without a bound of their own.
inline constexpr int64_t kFractionDigits = 15;

// Bounds that are both included, within +-kLargestWhole.
struct WholeRange {
  int64_t least = -kLargestWhole;
  int64_t most = kLargestWhole;
};

class JsonRules {
 public:
  // The grammar must outlive the rules.
  explicit JsonRules(Grammar& grammar);

  // A string of `least` to `most` characters; most < 0: any number.
  Place string(int64_t least, int64_t most, Place next);
  // A whole number in the range; the range is not empty.
  Place whole(WholeRange range, Place next);
  // Any number.
  Place number(Place next);
  // Whole numbers of `whole`, and numbers with a fraction of at most `digits` digits strictly between the
  // ends of `between`; not both empty.
  Place number_between(WholeRange whole, WholeRange between, int64_t digits, Place next);
  // The multiples of `step` > 0 in the range; nothing: there are none. Errors (unsupported): a step of which
  // more than kMaxRemainders remainders would have to be told apart.
  Result<std::optional<Place>> multiples(int64_t step, WholeRange range, Place next);
  static constexpr size_t kMaxRemainders = 50'000;
  // Whatever JSON there is, nested at most `depth` deep.
  Rule any_value(int depth);
  Rule any_object(int depth);

  // {"key":value,...} and [value,...] of any length.
  Place object_of(Rule value, Place next);
  Place array_of(Rule value, int64_t least, int64_t most, Place next);

 private:
  class Multiples;

  Rule make_character();
  Place hex_digits(int count, Place next);
  // Whole numbers of the range 0 <= least <= most.
  Place digits(WholeRange range, Place next);
  Place digits_between(std::string_view low, std::string_view high, bool at_low, bool at_high, Place next);
  // Both signs; `least` and `most` of numbers that `next` follows.
  void add_signed(WholeRange range, Place next, std::vector<Place>& choices);

  Grammar& grammar_;
  Rule character_;
  Rule digit_;
  std::vector<Rule> values_;  // by depth
};

}  // namespace fulmar
