// Reads numbers and parts of untrusted bytes, and makes untrusted text printable. Knows no file format.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

static_assert(std::endian::native == std::endian::little, "model files are little-endian and read in place");

using ByteSpan = std::span<const std::byte>;

// Returns the number stored at `offset`; the caller has checked that it is inside.
template <class T>
T load_at(ByteSpan bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

inline bool lies_inside(ByteSpan bytes, uint64_t offset, uint64_t length) {
  return offset <= bytes.size() && length <= bytes.size() - offset;
}

// Returns bytes[offset, offset + length), or an Error with `what`, the range asked for and the size there is.
Result<ByteSpan> part_of(ByteSpan bytes, uint64_t offset, uint64_t length, std::string_view what);

inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the product of non-negative sizes; nothing if it overflows. A zero anywhere gives zero, but the
// other sizes must still fit together.
std::optional<int64_t> checked_product(std::span<const int64_t> sizes);

// Prepares text from a file for an error line: escapes control bytes and invalid UTF-8, cuts long text.
std::string printable(std::string_view text);

}  // namespace fulmar
