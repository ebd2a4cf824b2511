// Which fused forms a device runs; needs no GPU.
#include "gpu/islands/island_ways.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

using gpu::island_ways;
using gpu::IslandWays;
using gpu::LowRankEnd;

TEST(IslandWays, QuickestFormsAreTakenWhereTheDeviceHasThem) {
  const IslandWays hopper = island_ways({.matrix_units = true, .panels = true});
  EXPECT_TRUE(hopper.lone_row && hopper.few_rows && hopper.short_rows && hopper.walk_leaves &&
              hopper.raw_chunks);
  EXPECT_EQ(hopper.low_rank_end, LowRankEnd::by_rows);
  EXPECT_FALSE(hopper.fixed_order);
  EXPECT_FALSE(island_ways({.matrix_units = true}).short_rows);
  const IslandWays plain = island_ways({});
  EXPECT_FALSE(plain.lone_row || plain.few_rows || plain.short_rows);
  EXPECT_EQ(plain.low_rank_end, LowRankEnd::two_launches);
}

TEST(IslandWays, ADeterministicDeviceHasNoFormForSomeNumbersOfRows) {
  for (const bool matrix_units : {false, true}) {
    for (const bool panels : {false, matrix_units}) {
      const IslandWays ways = island_ways({matrix_units, panels, true});
      EXPECT_FALSE(ways.lone_row || ways.few_rows || ways.short_rows || ways.walk_leaves || ways.raw_chunks);
      EXPECT_EQ(ways.low_rank_end, panels ? LowRankEnd::panels : LowRankEnd::two_launches);
      EXPECT_TRUE(ways.fixed_order);
    }
  }
}

}  // namespace
}  // namespace fulmar
