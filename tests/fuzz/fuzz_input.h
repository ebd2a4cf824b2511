// What the fuzz targets share: their bytes as text, its parts, and a check that ends the process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace fulmar {

inline std::string_view fuzz_text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// What must hold whatever the input is.
inline void expect(bool condition) {
  if (!condition) std::abort();
}

// Takes the text up to `end` off the front of `rest`, and `end` with it; all of it where `end` is absent.
inline std::string_view take_until(std::string_view& rest, std::string_view end) {
  const size_t at = std::min(rest.find(end), rest.size());
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + end.size(), rest.size()));
  return part;
}

// Calls use(piece) for pieces of 1 to 8 bytes whose lengths follow from `seed`.
template <class Use>
void in_pieces(std::string_view text, uint32_t seed, Use use) {
  while (!text.empty()) {
    seed = seed * 1664525u + 1013904223u;
    const size_t length = std::min<size_t>(text.size(), 1 + (seed >> 29));
    use(text.substr(0, length));
    text.remove_prefix(length);
  }
}

}  // namespace fulmar
