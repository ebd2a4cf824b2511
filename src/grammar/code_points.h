// Sets of Unicode code points, and their UTF-8 forms within a JSON string as places of a grammar.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace fulmar {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

// Ranges in order that do not touch; both ends included. Surrogates are never members.
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

// Of a text that is UTF-8.
std::vector<uint32_t> code_points_of(std::string_view text);

// One character of the set as it stands within a JSON string, then `next`: raw UTF-8, and the shortest escape
// where JSON asks for one (RFC 8259). The set is not empty.
Place character_of(Grammar& grammar, const CodePointSet& set, Place next);

}  // namespace fulmar
