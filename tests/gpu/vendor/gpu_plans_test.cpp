// How work is shared out among blocks, and when; needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/kernels.h"
#include "gpu/linear_choice.h"
#include "gpu/row_kernels.h"

namespace fulmar {
namespace {

constexpr int kMultiprocessors = 132;

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

TEST(EnterPlan, DecodeNeedsNone) {
  Batch batch;
  batch.rows = batch.sequences = 320;
  EXPECT_EQ(gpu::plan_enter(batch, 4096, kMultiprocessors).blocks, 0);
}

Weight half(int64_t out, int64_t in, bool transposed = false) {
  return {DType::f16, out, in, nullptr, transposed};
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
    gpu::RowProduct product;
    product.weight = half(outs, width);
    return gpu::suits_made_inputs({&product, 1}, kMultiprocessors);
  };
  EXPECT_TRUE(suit(3 * 768, 768));
  EXPECT_TRUE(suit(3 * 2048 + 512, 2048));
  EXPECT_FALSE(suit(3 * 4096, 4096));
  EXPECT_FALSE(suit(2 * 2 * kMultiprocessors * 16, 2048));
}

TEST(ManyRows, PayWhereTheirTilesAreFull) {
  for (const int64_t rows : {512, 1000, 1024, 2048, 4096, 4097})
    EXPECT_TRUE(gpu::many_rows_pay(rows)) << rows;
  for (const int64_t rows : {1, 256, 511, 513, 640, 960}) EXPECT_FALSE(gpu::many_rows_pay(rows)) << rows;
}

}  // namespace
}  // namespace fulmar
