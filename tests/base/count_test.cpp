// Counts at the ends of their range.
#include "base/count.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

TEST(Count, StopsAtTheEndsOfItsRange) {
  // Every pair of these, by each operation, beside what 128 bits say.
  const int64_t numbers[] = {Count::kLeast,    Count::kLeast + 1, -(int64_t{1} << 32), -2, -1, 0, 1, 2,
                             int64_t{1} << 32, Count::kMost - 1,  Count::kMost};
  const auto clamped = [](__int128 wide) {
    return static_cast<int64_t>(wide < Count::kLeast  ? Count::kLeast
                                : wide > Count::kMost ? Count::kMost
                                                      : wide);
  };
  for (const int64_t a : numbers) {
    for (const int64_t b : numbers) {
      EXPECT_EQ((Count(a) + b).value(), clamped(static_cast<__int128>(a) + b)) << a << " + " << b;
      EXPECT_EQ((Count(a) - b).value(), clamped(static_cast<__int128>(a) - b)) << a << " - " << b;
      EXPECT_EQ((Count(a) * b).value(), clamped(static_cast<__int128>(a) * b)) << a << " * " << b;
      EXPECT_EQ(Count(a) < Count(b), a < b);
    }
  }
}

TEST(Count, TakesWhatDoesNotFitAsTheMost) {
  EXPECT_EQ(Count(std::numeric_limits<uint64_t>::max()).value(), Count::kMost);
  EXPECT_EQ(Count(uint8_t{7}).value(), 7);
}

}  // namespace
}  // namespace fulmar
