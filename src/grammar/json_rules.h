// JSON's own forms as places of a grammar. Knows nothing of schemas.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"

namespace fulmar {

// The largest whole number that is written where nothing bounds it: every reader represents it exactly.
inline constexpr std::string_view kLargestWhole = "999999999999999";
inline constexpr size_t kWholeDigits = kLargestWhole.size();

// The most digits that are written after the decimal point.
inline constexpr int64_t kFractionDigits = 15;

// Whole numbers from `least` to `most`, both included, as digits without sign and leading zeros.
struct DigitRange {
  std::string least;
  std::string most;
};

// White space between the tokens of JSON. A model that never sees the end of a gap would write white space
// for ever, so each gap has a bound.
enum class Whitespace : uint8_t {
  none,      // compact
  normal,    // at most one blank, or one newline with up to kMaxIndent blanks or tabs
  flexible,  // up to kMaxGap characters of any kind that JSON takes
};
inline constexpr int64_t kMaxIndent = 32;
inline constexpr int64_t kMaxGap = 64;

class JsonRules {
 public:
  // Makes the rules in a grammar, which must outlive them.
  explicit JsonRules(Grammar& grammar, Whitespace whitespace = Whitespace::none);

  // Takes a sign of JSON's structure with the white space around it. `close` follows a value or the gap of an
  // open sign: it takes white space only after a value, so that no gap is taken twice.
  Place open(std::string_view sign, Place next);   // '{' or '[', then a gap
  Place close(std::string_view sign, Place next);  // a gap, then '}' or ']': after a value
  // Takes '}' or ']' alone: after open(), whose gap has been taken already.
  Place close_at_once(std::string_view sign, Place next) { return grammar_.text(sign, next); }
  Place comma(Place next);  // a gap, ',' and a gap
  Place colon(Place next);  // a gap, ':' and a gap
  Place gap(Place next);

  // Takes any characters of a string, and the quote at its end.
  Place rest_of_string(Place next) { return grammar_.repeat(character_, 0, -1, grammar_.text("\"", next)); }
  // Takes a string of `least` to `most` characters; most < 0: any number.
  Place string(int64_t least, int64_t most, Place next);
  // Takes a whole number without a sign in the range, which is not empty.
  Place digits(const DigitRange& range, Place next);
  // Takes any number.
  Place number(Place next);
  // Returns the rule of any JSON value, nested at most `depth` deep.
  Rule any_value(int depth);
  Rule any_object(int depth);

  // Takes {"key":value,...}, or [value,...] of `least` to `most` values.
  Place object_of(Rule value, Place next);
  Place array_of(Rule value, int64_t least, int64_t most, Place next);

 private:
  Rule make_character();
  Place hex_digits(int count, Place next);
  Place digits_between(std::string_view low, std::string_view high, bool at_low, bool at_high, Place next);

  Grammar& grammar_;
  Rule character_;
  Rule digit_;
  std::optional<Rule> gap_;   // white space, at least a character; nothing: none is taken
  std::vector<Rule> values_;  // by depth
};

}  // namespace fulmar
