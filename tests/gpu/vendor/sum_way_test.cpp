// Which way a sum over GPUs goes.
#include "gpu/device/sum_way.h"

#include <gtest/gtest.h>

namespace fulmar::gpu {
namespace {

TEST(SumWays, FewNumbersCarryFlagsAndManyDoNot) {
  for (const int64_t ranks : {2, 4, 8}) {
    EXPECT_EQ(sum_way(ranks, 8 << 10), SumWay::flagged) << ranks << " ranks, a row";
    EXPECT_NE(sum_way(ranks, int64_t{64} << 20), SumWay::flagged) << ranks << " ranks, a prompt";
  }
}

// What one rank pushes to each of the others grows with their number, unless each adds up a part.
TEST(SumWays, ManyRanksShareTheWork) {
  EXPECT_EQ(sum_way(8, int64_t{8} << 20), SumWay::two_shot);
  EXPECT_EQ(sum_way(4, int64_t{8} << 20), SumWay::two_shot);
}

TEST(SumWays, TwoRanksReadLargeAddendsWhereTheyLie) {
  EXPECT_FALSE(pulls_addends(2, 8 << 10)) << "a row";
  EXPECT_TRUE(pulls_addends(2, int64_t{64} << 20)) << "a prompt";
  EXPECT_FALSE(pulls_addends(4, int64_t{64} << 20)) << "a kernel reads one other rank's";
}

TEST(SumWays, FlaggedSumsHaveRoom) {
  for (int64_t ranks = 2; ranks <= 8; ranks++) {
    for (int64_t bytes = 16; bytes <= int64_t{64} << 20; bytes *= 2) {
      if (sum_way(ranks, bytes) == SumWay::flagged) {
        EXPECT_LE(bytes, kMostFlaggedBytes);
      }
      EXPECT_NE(sum_way(ranks, bytes), SumWay::library) << "measured slower at every size";
    }
  }
}

}  // namespace
}  // namespace fulmar::gpu
