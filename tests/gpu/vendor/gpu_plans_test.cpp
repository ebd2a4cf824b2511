// How work is shared out among blocks, and when; needs no GPU.
#include <gtest/gtest.h>

#include "gpu/kernels.h"
#include "gpu/linear_choice.h"

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

TEST(ManyRows, PayWhereTheirTilesAreFull) {
  for (const int64_t rows : {512, 1000, 1024, 2048, 4096, 4097})
    EXPECT_TRUE(gpu::many_rows_pay(rows)) << rows;
  for (const int64_t rows : {1, 256, 511, 513, 640, 960}) EXPECT_FALSE(gpu::many_rows_pay(rows)) << rows;
}

}  // namespace
}  // namespace fulmar
