// Bytes to well-formed UTF-8, whole or in pieces. Invalid bytes become U+FFFD, one per maximal subpart, as
// the WHATWG Encoding Standard decodes. Knows nothing of tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fulmar {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// What stands at the front of a byte string.
struct Utf8Front {
  enum class Kind { character, invalid, incomplete };
  Kind kind;
  size_t length;  // bytes of it, 1..4: of the character; of the subpart to replace; of all that there is
};

// `bytes` must not be empty. incomplete: all of `bytes` is the beginning of a character.
Utf8Front utf8_front(std::string_view bytes);

bool is_utf8(std::string_view bytes);
// The whole text at once; an incomplete end is invalid, too.
std::string to_utf8(std::string_view bytes);
// Appends a code point (0..0x10FFFF, no surrogate) to `out`.
void append_utf8(char32_t code_point, std::string& out);

// Text that arrives in arbitrary pieces. The joined answers are well-formed and do not depend on the cuts.
class Utf8Stream {
 public:
  // Adds bytes and returns what is decided; up to 3 bytes that begin a character are held back.
  std::string push(std::string_view bytes);
  // The text is over: an unfinished character is dropped. Returns how many bytes that were.
  size_t finish();
  // Bytes held back.
  size_t held() const { return held_.size(); }

 private:
  std::string held_;
};

}  // namespace fulmar
