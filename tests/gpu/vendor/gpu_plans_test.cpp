// How work is shared out among blocks, and when; needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/device/prefetch.h"
#include "gpu/device/step_shape.h"
#include "gpu/gemm/kernels.h"
#include "gpu/gemm/mma.h"
#include "gpu/gemm/skinny_pair.h"
#include "gpu/stages/enter.h"
#include "gpu/stages/lone_row.h"

namespace fulmar {
namespace {

constexpr int kMultiprocessors = 132;

Weight half(int64_t out, int64_t in, bool transposed = false) {
  return {DType::f16, out, in, nullptr, transposed ? WeightLayout::columns : WeightLayout::rows};
}

TEST(EnterPlan, EveryRowHasABlockAndEveryBlockARow) {
  for (const int64_t cols : {64, 768, 2048, 4096, 8192}) {
    for (const int64_t rows : {2, 17, 131, 132, 133, 1000, 4096, 4097, 65536}) {
      Batch batch;
      batch.rows = rows, batch.sequences = 1;
      const gpu::EnterPlan plan = gpu::plan_enter(batch, cols, kMultiprocessors);
      EXPECT_GE(plan.each * plan.blocks, rows) << rows << " x " << cols;
      EXPECT_LT(plan.each * (plan.blocks - 1), rows) << rows << " x " << cols;
    }
  }
}

TEST(StepShape, RecordsDecodeStepsAndThoseThatCheckTheDraftsOfOne) {
  for (const int64_t rows : {1, 8, 320}) EXPECT_TRUE(gpu::is_captured(rows, rows, rows)) << rows;
  EXPECT_FALSE(gpu::is_captured(2048, 2048, 2048));
  EXPECT_FALSE(gpu::is_captured(32, 32, 5));
  for (const int64_t rows : {2, 8}) {
    EXPECT_TRUE(gpu::is_captured(rows, 1, rows)) << rows;
    EXPECT_TRUE(gpu::is_captured(rows, 1, 1)) << rows;
    EXPECT_FALSE(gpu::is_captured(rows + 1, 2, rows + 1)) << rows;
  }
  EXPECT_FALSE(gpu::is_captured(17, 1, 1));
}

TEST(EnterPlan, DecodeNeedsNone) {
  Batch batch;
  batch.rows = batch.sequences = 320;
  EXPECT_EQ(gpu::plan_enter(batch, 4096, kMultiprocessors).blocks, 0);
}

TEST(EnterPlan, BlocksThatPullGoThroughSeveralRowsWhereThereAreMoreThanMultiprocessors) {
  for (const int64_t rows : {1, 131, 132}) {
    Batch batch;
    batch.rows = batch.sequences = rows;
    EXPECT_EQ(gpu::plan_enter(batch, 4096, kMultiprocessors).pulling, 0) << rows;
  }
  for (const int64_t rows : {133, 320, 960}) {
    Batch batch;
    batch.rows = batch.sequences = rows;
    EXPECT_EQ(gpu::plan_enter(batch, 4096, kMultiprocessors).pulling, kMultiprocessors) << rows;
  }
}

// ffn_row holds the parts it is given against what one multiprocessor would need at least.
TEST(FfnRow, HasAPartForEachBlockThatRunsAtOnceAndNoneTooLarge) {
  for (const int64_t width : {256, 768, 2048, 4096}) {
    for (const Weight& gate : {Weight{}, half(width, width)}) {
      const Weight key = half(4 * width, width), value = half(width, 4 * width, true);
      const int64_t tiles = (key.out + gate.out) / 16;
      const int64_t parts = gpu::ffn_row_parts(key, value, kMultiprocessors, gate);
      EXPECT_EQ(parts, std::min<int64_t>(2 * kMultiprocessors, tiles)) << width;
      const int64_t least = gpu::ffn_row_parts(key, value, 1, gate);
      EXPECT_LE(least, parts) << width;
      EXPECT_GE(least * 16, tiles) << width;
    }
  }
}

TEST(FfnRow, LeavesMatricesThatLieOtherwise) {
  const Weight key = half(1024, 256), value = half(256, 1024, true);
  EXPECT_GT(gpu::ffn_row_parts(key, value, kMultiprocessors), 0);
  EXPECT_EQ(gpu::ffn_row_parts(key, half(256, 1024), kMultiprocessors), 0);
  EXPECT_EQ(gpu::ffn_row_parts(half(1024, 256, true), value, kMultiprocessors), 0);
  EXPECT_EQ(gpu::ffn_row_parts(half(1024, 250), value, kMultiprocessors), 0);
}

// A block that makes its inputs itself has room for those of two products.
TEST(MadeInputs, SuitShortRowsWithFewOutputs) {
  const auto suit = [](int64_t outs, int64_t width) {
    gpu::Gemv product;
    product.weight = half(outs, width);
    return gpu::suits_made_inputs({&product, 1}, 2 * kMultiprocessors);
  };
  EXPECT_TRUE(suit(3 * 768, 768));
  EXPECT_TRUE(suit(3 * 2048 + 512, 2048));
  EXPECT_FALSE(suit(3 * 4096, 4096));
  EXPECT_FALSE(suit(2 * 2 * kMultiprocessors * 16, 2048));
}

// r, k, v of codes and the first low-rank halves of 16 bits, as models have them.
TEST(SkinnyPair, TheLongestBlockHasTheLeastToRead) {
  constexpr int64_t kResident = 2 * kMultiprocessors;
  const gpu::SkinnyPair wide = gpu::plan_skinny_pair({768, 36'864}, {52, 131'072}, kResident);
  EXPECT_EQ(wide.first, 192) << "four tiles each; with three for each only eight blocks would be left";
  EXPECT_EQ(wide.second, 52);
  const gpu::SkinnyPair narrow = gpu::plan_skinny_pair({192, 9'216}, {20, 32'768}, kResident);
  EXPECT_EQ(narrow.first, 192);
  EXPECT_EQ(narrow.second, 20);
}

TEST(SkinnyPair, AllBlocksOfBothFindRoomAtOnce) {
  for (const int64_t first : {1, 12, 264, 265, 1000}) {
    for (const int64_t second : {1, 52, 400}) {
      for (const int64_t resident : {2, 16, 264}) {
        const gpu::SkinnyPair pair = gpu::plan_skinny_pair({first, 100}, {second, 100}, resident);
        EXPECT_GT(pair.first, 0);
        EXPECT_GT(pair.second, 0);
        EXPECT_LE(pair.first, first);
        EXPECT_LE(pair.second, second);
        EXPECT_LE(pair.first + pair.second, resident) << first << " " << second << " " << resident;
      }
    }
  }
  EXPECT_EQ(gpu::plan_skinny_pair({100, 1}, {100, 1}, 1).first, 0) << "no room for two";
}

Weight stored(DType dtype, int64_t out, int64_t in) {
  static const std::byte somewhere{};
  return {dtype, out, in, &somewhere};
}

TEST(Prefetch, AsDeepAsTheFormatOfTheFirstMatrixWantsAndNoDeeperThanAMatrixIs) {
  const Weight square = stored(DType::f16, 4096, 4096), codes = stored(DType::q4_k, 4096, 4096),
               low_rank = stored(DType::f16, 4096, 128);
  const gpu::Prefetch plain = gpu::prefetch_of({&square, &low_rank}, gpu::kPrefetchSquare);
  EXPECT_EQ(plain.data[0], square.data);
  EXPECT_EQ(plain.bytes[0], gpu::kPrefetchSquare.plain16.bytes);
  EXPECT_EQ(plain.bytes[1], low_rank.bytes());
  const gpu::Prefetch packed = gpu::prefetch_of({&codes, &low_rank}, gpu::kPrefetchSquare);
  EXPECT_EQ(packed.bytes[0], gpu::kPrefetchSquare.codes.bytes);
  EXPECT_EQ(packed.bytes[1], low_rank.bytes());
}

TEST(Prefetch, NothingOfMatricesThatWouldLoseByIt) {
  for (const DType dtype : {DType::f16, DType::q8_0, DType::q4_k}) {
    const Weight small = stored(dtype, 2048, 2048), key = stored(dtype, 8192, 2048), none{dtype, 4096, 4096};
    EXPECT_FALSE(gpu::prefetch_of({&small}, gpu::kPrefetchSquare).any());
    EXPECT_FALSE(gpu::prefetch_of({&key}, gpu::kPrefetchKey).any());
    EXPECT_FALSE(gpu::prefetch_of({&none}, gpu::kPrefetchSquare).any());
  }
}

TEST(MmaPlan, EveryStepHasABlockAndTwoBlocksAMultiprocessorSuffice) {
  for (const int64_t rows : {9, 16, 17, 32, 33, 64}) {
    for (const int64_t in : {64, 72, 1000, 4096}) {
      for (const int64_t out : {96, 4096, 13344, 16384}) {
        const gpu::Gemm product{{nullptr, DType::f16, rows, in, in}, half(out, in), {}};
        const gpu::MmaPlan plan = gpu::plan_mma({&product, 1}, kMultiprocessors);
        const int64_t step = rows <= 32 ? 256 : 128, stages = (in + step - 1) / step;
        EXPECT_GE(plan.steps * plan.slices, stages) << rows << " " << in << " " << out;
        EXPECT_LT(plan.steps * (plan.slices - 1), stages) << rows << " " << in << " " << out;
        EXPECT_EQ(plan.partial_bytes > 0, plan.slices > 1);
        // What fits at once is not cut into more rounds.
        if (plan.tiles <= 2 * kMultiprocessors) {
          EXPECT_LE(plan.tiles * plan.slices, 2 * kMultiprocessors);
        }
      }
    }
  }
}

TEST(MmaPlan, FewTilesAreCutIntoSlices) {
  const auto slices = [](int64_t rows, int64_t out) {
    const gpu::Gemm product{{nullptr, DType::f16, rows, 4096, 4096}, half(out, 4096), {}};
    return gpu::plan_mma({&product, 1}, kMultiprocessors).slices;
  };
  EXPECT_EQ(slices(32, 4096), 4);
  EXPECT_EQ(slices(32, 16384), 1);
  EXPECT_EQ(slices(64, 4096), 8);
  EXPECT_EQ(slices(64, 16384), 2);
}

TEST(FixedOrder, NoSumIsDividedAndRowsAreNormalisedByBlocksOfOneWidth) {
  const gpu::Gemm product{
      {nullptr, DType::f16, 0, 4096, 4096}, half(4096, 4096), {nullptr, DType::f16, 0, 4096, 4096}};
  for (const int64_t rows : {1, 9, 33, 64, 129, 320, 1024}) {
    gpu::Gemm one = product;
    one.in.rows = one.out.rows = rows;
    const gpu::MmaPlan tiles = gpu::plan_mma({&one, 1}, kMultiprocessors, true);
    EXPECT_EQ(tiles.slices, 1) << rows;
    EXPECT_EQ(tiles.partial_bytes, 0u) << rows;
    for (const bool decode : {false, true}) {
      Batch batch;
      batch.rows = rows, batch.sequences = decode ? rows : 1;
      EXPECT_TRUE(gpu::plan_enter(batch, 4096, kMultiprocessors, true).wide) << rows;
    }
  }
  Batch many;
  many.rows = many.sequences = 1024;
  EXPECT_FALSE(gpu::plan_enter(many, 4096, kMultiprocessors).wide);
}

}  // namespace
}  // namespace fulmar
