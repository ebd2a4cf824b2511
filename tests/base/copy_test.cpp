// Copies around the sizes at which they are divided.
#include "base/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fulmar {
namespace {

constexpr std::byte kOutside{0xee};

void expect_copied(size_t bytes, size_t misaligned) {
  std::vector<std::byte> from(bytes + misaligned), to(bytes + 2, kOutside);
  uint32_t number = 1;
  for (std::byte& byte : from) byte = static_cast<std::byte>((number = number * 1664525 + 1013904223) >> 24);
  copy_bytes(to.data() + 1, from.data() + misaligned, bytes);
  EXPECT_TRUE(std::equal(to.begin() + 1, to.end() - 1, from.begin() + static_cast<ptrdiff_t>(misaligned)))
      << bytes << " bytes from " << misaligned;
  EXPECT_EQ(to.front(), kOutside);
  EXPECT_EQ(to.back(), kOutside);
}

TEST(CopyBytes, CopiesEverySizeWhole) {
  constexpr size_t kMiB = size_t{1} << 20;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, 2 * kMiB, 4 * kMiB - 1, 4 * kMiB + 1,
                             7 * kMiB, 16 * kMiB + 4095, 33 * kMiB + 7}) {
    expect_copied(bytes, 0);
    expect_copied(bytes, 3);
  }
}

}  // namespace
}  // namespace fulmar
