// Sets of Unicode code points, and their UTF-8 forms in a JSON string as places of a grammar.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace fulmar {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;
inline constexpr uint32_t kFirstSurrogate = 0xD800;
inline constexpr uint32_t kLastSurrogate = 0xDFFF;
constexpr bool is_surrogate(uint32_t point) { return point >= kFirstSurrogate && point <= kLastSurrogate; }

// Sorted ranges that do not touch; both ends are included. Surrogates are never members.
class CodePointSet {
 public:
  using Range = std::pair<uint32_t, uint32_t>;

  CodePointSet() = default;
  static CodePointSet all();
  static CodePointSet of(uint32_t first, uint32_t last);

  void add(uint32_t first, uint32_t last);
  void add(const CodePointSet& other);
  CodePointSet complement() const;
  bool contains(uint32_t point) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  void add_any(uint32_t first, uint32_t last);

  std::vector<Range> ranges_;
};

// Returns whether most texts accept the character and JSON writes it as it is: no control character, quote,
// backslash or surrogate, and neither of the two line ends that the dot of a pattern excludes.
bool is_plain(uint32_t point);

// Returns the code points of a text, which is UTF-8.
std::vector<uint32_t> code_points_of(std::string_view text);

enum class CharacterForm : uint8_t {
  plain,    // raw UTF-8
  in_json,  // raw UTF-8, and the shortest escape where a JSON string asks for one (RFC 8259)
};

// Takes one character of the set, then goes to `next`. An empty set takes nothing.
Place character_of(Grammar& grammar, const CodePointSet& set, CharacterForm form, Place next);

}  // namespace fulmar
