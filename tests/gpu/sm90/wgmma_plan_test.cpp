// Plans of grouped products on GPUs of compute capability 9.0; needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/gemm/sm90/wgmma.h"
#include "gpu/gemm/sm90/wgmma_q.h"
#include "gpu/sm90/wgmma_rooms.h"

namespace fulmar {
namespace {

constexpr int kMultiprocessors = 132;
constexpr int64_t kStepInputs = 64;

gpu::WgmmaPlan plan(int64_t rows, int64_t in, int64_t out,
                    const gpu::WgmmaRoom& room = room_of(kMultiprocessors)) {
  const gpu::Gemm product{{nullptr, DType::f16, rows, in, in}, {DType::f16, out, in}, {}};
  return gpu::plan_wgmma({&product, 1}, room);
}

TEST(WgmmaPlan, EveryStepHasABlockAndEveryBlockAStep) {
  for (const int64_t rows : {9, 32, 33, 64, 65, 128, 200, 256}) {
    for (const int64_t in : {64, 96, 1024, 4096}) {
      for (const int64_t out : {96, 480, 4096, 16384}) {
        const gpu::WgmmaPlan p = plan(rows, in, out);
        const int64_t steps = p.tiles * ((in + kStepInputs - 1) / kStepInputs);
        ASSERT_GE(p.blocks, 1) << rows << " " << in << " " << out;
        EXPECT_LE(p.blocks, kMultiprocessors);
        if (p.steps_each == 0) {
          EXPECT_EQ(p.blocks, std::min<int64_t>(p.tiles, kMultiprocessors));
          EXPECT_EQ(p.partial_bytes, 0u);
        } else if (p.parts > 1) {
          EXPECT_EQ(p.blocks, p.tiles * p.parts);
          EXPECT_GE(p.blocks * p.steps_each, steps);
          EXPECT_LT((p.parts - 1) * p.steps_each, steps / p.tiles) << "the last part has steps";
          EXPECT_EQ(p.partial_bytes, 0u);
        } else {
          EXPECT_GE(p.blocks * p.steps_each, steps);
          EXPECT_LT((p.blocks - 1) * p.steps_each, steps);
          EXPECT_GT(p.partial_bytes, 0u);
        }
      }
    }
  }
}

TEST(WgmmaPlan, FewTilesAreSharedAndManyAreNot) {
  EXPECT_GT(plan(32, 4096, 4096).steps_each, 0);   // 32 tiles of 64 steps
  EXPECT_EQ(plan(32, 4096, 16384).steps_each, 0);  // 128 tiles
  EXPECT_EQ(plan(128, 4096, 16384).steps_each,
            0);  // sums of so many rows cost more than the last blocks' rest
}

TEST(WgmmaPlan, TilesOfLongSumsAreSharedByClustersThatRunAtOnce) {
  EXPECT_EQ(plan(320, 16384, 4096).parts, 4);  // 32 tiles of 256 outputs and 160 rows
  EXPECT_EQ(plan(128, 4096, 16384).parts, 1);  // as many tiles as multiprocessors
  gpu::WgmmaRoom room = room_of(kMultiprocessors);
  room.clusters[4] = 31;
  EXPECT_EQ(plan(320, 16384, 4096, room).parts, 3);
  EXPECT_EQ(plan(320, 16384, 4096, {kMultiprocessors}).parts, 1) << "no clusters";
  EXPECT_EQ(plan(128, 16384, 4096).parts, 1) << "clusters of too many blocks";
}

gpu::WgmmaPlan packed_plan(int64_t rows, int64_t in, int64_t out, bool fixed_order = false) {
  gpu::Gemm product{{nullptr, DType::f16, rows, in, in}, {DType::q8_0, out, in}, {}};
  product.weight.group = 32;
  return gpu::plan_wgmma_q({&product, 1}, room_of(kMultiprocessors), fixed_order);
}

TEST(WgmmaPlan, FewRowsOfCodesTakeWholeTilesInSlices) {
  for (const int64_t rows : {9, 16, 32}) {
    EXPECT_EQ(packed_plan(rows, 4096, 4096).blocks, 64) << "tiles of 64 outputs, none of which is shared";
    EXPECT_EQ(packed_plan(rows, 4096, 16384).blocks, 128);
    EXPECT_EQ(packed_plan(rows, 4096, 16384).partial_bytes, 0u);
  }
}

TEST(WgmmaPlan, SlicesAddUpInAnOrderOfTheirOwnAndSoHaveNoFixedOne) {
  constexpr int64_t kUnsliced = gpu::kWgmmaQShapeCount - gpu::kSlicedShapeCount;
  for (const int64_t rows : {1, 9, 32, 64, 320}) {
    for (const int64_t out : {96, 4096, 16384})
      EXPECT_LT(packed_plan(rows, 4096, out, true).shape, kUnsliced);
  }
}

// A first launch of so many blocks where it may, and a second one.
gpu::WgmmaPair pair_of(int64_t first_blocks, int64_t second_share) {
  const auto plan_first = [&](const gpu::WgmmaRoom& room) {
    return gpu::WgmmaPlan{.tiles = 1, .blocks = std::min<int64_t>(first_blocks, room.multiprocessors)};
  };
  const auto plan_second = [](const gpu::WgmmaRoom& room) {
    return gpu::WgmmaPlan{.blocks = room.multiprocessors};
  };
  return gpu::plan_wgmma_pair(room_of(kMultiprocessors), second_share, plan_first, plan_second);
}

TEST(WgmmaPair, TheSecondTakesWhatTheFirstLeaves) {
  const gpu::WgmmaPair pair = pair_of(96, 7);
  EXPECT_EQ(pair.first.blocks, 96);
  EXPECT_EQ(pair.second.blocks, kMultiprocessors - 96);
}

TEST(WgmmaPair, AFirstThatWouldTakeAllLeavesTheSecondHalfAsMuchAgainAsItsShare) {
  const gpu::WgmmaPair pair = pair_of(1000, 10);
  EXPECT_EQ(pair.second.blocks, 20);  // 13.2 and half of it
  EXPECT_EQ(pair.first.blocks, kMultiprocessors - 20);
}

TEST(WgmmaRoom, ClustersFitIntoWhatIsLeft) {
  const gpu::WgmmaRoom left = gpu::room_without(room_of(kMultiprocessors), 32);
  EXPECT_EQ(left.multiprocessors, 100);
  for (int blocks = 2; blocks <= gpu::kMostClusterBlocks; blocks++) {
    EXPECT_LE(left.clusters[static_cast<size_t>(blocks)] * blocks, 100) << blocks;
  }
}

TEST(WgmmaPlan, TellsHowMuchOfTheMultiprocessorsIsUsed) {
  EXPECT_EQ(plan(320, 4096, 16384).filled, 96);  // 128 whole tiles for 132 multiprocessors
  EXPECT_EQ(plan(960, 4096, 16384).filled, 96);  // three rounds
  for (const int64_t rows : {32, 64, 128, 256}) EXPECT_EQ(plan(rows, 4096, 16384).filled, 96) << rows;
  EXPECT_EQ(plan(160, 4096, 16384).filled, 96);  // 64 tiles, each by a cluster of two
  EXPECT_LT(plan(400, 4096, 16384).filled,
            80);  // tiles of twice 160 rows are too few, and of three times too many
  for (const int64_t rows : {9, 100, 320, 700}) {
    for (const int64_t out : {96, 4096, 16384}) EXPECT_LE(plan(rows, 1024, out).filled, 100);
  }
}

}  // namespace
}  // namespace fulmar
