// Parses regular expressions of the keyword `pattern` (ECMA-262) to trees. Knows no automaton and no JSON.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/code_points.h"

namespace fulmar {

struct Pattern {
  enum class Kind : uint8_t {
    characters,  // one of `set`
    sequence,    // all parts, one after the other; none: the empty text
    choice,      // one of the parts
    repeat,      // the only part, `least` to `most` times; most < 0: without end
    begin,       // ^
    end,         // $
    ahead,       // (?=...)
    not_ahead,   // (?!...)
  };
  Kind kind = Kind::sequence;
  CodePointSet set;
  std::vector<Pattern> parts;
  int64_t least = 0;
  int64_t most = 0;
};

inline constexpr size_t kMaxPatternBytes = 4096;
inline constexpr int kMaxGroupDepth = 32;
inline constexpr int64_t kMaxRepeat = 10'000;

// Parses a regular expression: characters, classes, . \d \w \s and their opposites, \p{...}, \t \n \v \f \r
// \0 \xHH \uHHHH \u{H} \cX, escaped signs, groups (captures only group), |, quantifiers (lazy ones describe
// the same texts), ^ $, and (?=...) (?!...) except inside of what repeats without end. Errors name the
// construct and its offset: unsupported, for everything else (back references, lookbehind, \b, flags) and for
// what is beyond the limits; invalid, for what is no regular expression.
Result<Pattern> parse_pattern(std::string_view text);

}  // namespace fulmar
