#include "files/bytes.h"

#include <fmt/format.h>
#include <simdjson.h>

namespace fulmar {

Result<ByteSpan> part_of(ByteSpan bytes, uint64_t offset, uint64_t length, std::string_view what) {
  if (lies_inside(bytes, offset, length)) return bytes.subspan(offset, length);
  return Error{ErrorKind::corrupt, fmt::format("{} lies outside the file: {} bytes at {}, but there are {}",
                                               what, length, offset, bytes.size())};
}

std::optional<int64_t> checked_product(std::span<const int64_t> sizes) {
  int64_t product = 1;
  bool zero = false;
  for (const int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      zero = true;
    } else if (__builtin_mul_overflow(product, size, &product)) {
      return std::nullopt;
    }
  }
  return zero ? 0 : product;
}

std::string printable(std::string_view text) {
  constexpr size_t kMost = 120;
  const bool cut = text.size() > kMost;
  const std::string_view shown = text.substr(0, kMost);
  const bool utf8 = simdjson::validate_utf8(shown.data(), shown.size());
  std::string out;
  for (const char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return cut ? out + "..." : out;
}

}  // namespace fulmar
