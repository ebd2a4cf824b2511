// Converts bytes to well-formed UTF-8, whole or in pieces. Invalid bytes become U+FFFD, one per maximal
// subpart, as the WHATWG Encoding Standard decodes. Knows nothing of tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fulmar {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// The first character of a byte string, or what stands in its place.
struct Utf8Front {
  enum class Kind { character, invalid, incomplete };
  Kind kind;
  size_t length;  // bytes, 1..4, of the character, the subpart to replace, or the incomplete beginning
};

// Classifies the front of `bytes`, which is not empty. incomplete: `bytes` only begins a character.
Utf8Front utf8_front(std::string_view bytes);

bool is_utf8(std::string_view bytes);
// Converts a whole text at once; an incomplete character at its end counts as invalid.
std::string to_utf8(std::string_view bytes);
// Appends a code point (0..0x10FFFF, no surrogate) to `out`.
void append_utf8(char32_t code_point, std::string& out);

// Converts text that arrives in pieces. The joined results are well-formed and do not depend on the cuts.
class Utf8Stream {
 public:
  // Adds bytes and returns all complete text; holds back up to 3 bytes that begin a character.
  std::string push(std::string_view bytes);
  // Ends the text and drops an unfinished character. Returns the number of bytes dropped.
  size_t finish();
  // Returns the number of bytes held back.
  size_t held() const { return held_.size(); }

 private:
  std::string held_;
};

}  // namespace fulmar
