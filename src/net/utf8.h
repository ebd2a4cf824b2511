// How many bytes the next UTF-8 code point takes. Knows nothing of what the text means.
#pragma once

#include <cstddef>
#include <string_view>

namespace fulmar::net {

// Bytes of the well-formed code point at the start of `text` (1..4), or 0 when there is none: stray
// continuation, overlong form, surrogate, beyond U+10FFFF, cut off. `text` must not be empty.
inline size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned least = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned most = first == 0xED ? 0x9F : 0xBF;
    return byte(1) >= least && byte(1) <= most && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned least = first == 0xF0 ? 0x90 : 0x80;
    const unsigned most = first == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= least && byte(1) <= most && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace fulmar::net
