// Where states are written and what rings hold, by the rules of ops/ring.h alone.
#include "ops/ring.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

RingLayout ring_of(int64_t every, int64_t revocable) {
  return ring_layout({.every = every, .revocable = revocable}, {5, true}, DType::f16);
}

TEST(Ring, NoRowsWhereEveryStepWritesAndNothingIsRolledBack) {
  EXPECT_EQ(ring_of(1, 0), RingLayout{});
  EXPECT_EQ(ring_of(4, 0).rows, 3);
  EXPECT_EQ(ring_of(4, 6).rows, 9);
  EXPECT_EQ(most_revocable(ring_of(4, 6)), 6);
  EXPECT_EQ(most_revocable(ring_of(4, 0)), 0);
}

TEST(Ring, TakesFourteenBytesAChannelAndRowOfRwkv7AndSixOfRwkv6) {
  EXPECT_EQ(ring_of(2, 0).wkv_bytes(4, 64), 14u * 4 * 64);
  EXPECT_EQ(ring_layout({.every = 2}, {3, false}, DType::f16).wkv_bytes(4, 64), 6u * 4 * 64);
}

TEST(Ring, WritesBehindEveryMthRow) {
  const RingLayout ring = ring_of(4, 0);
  RingCursor cursor;
  for (int round = 0; round < 3; round++) {
    for (uint8_t held = 0; held < 3; held++) {
      EXPECT_EQ(ring_step(ring, cursor, 1, false), (RingStep{0, held, 0, 1}));
    }
    EXPECT_EQ(ring_step(ring, cursor, 1, false), (RingStep{0, 3, 0, 0}));
    EXPECT_EQ(cursor.held, 0);
  }
}

TEST(Ring, SeveralRowsAreWrittenBehindTheLast) {
  const RingLayout ring = ring_of(4, 0);
  RingCursor cursor{.first = 0, .held = 2};
  EXPECT_EQ(ring_step(ring, cursor, 100, false), (RingStep{0, 2, 0, 0}));
  EXPECT_EQ(cursor.held, 0);
}

// Whatever is drafted and rolled back, states are written behind the same rows of what stays.
TEST(Ring, WritesOnlyWhatStaysAndOnlyAtMultiplesOfM) {
  for (const int64_t every : {1, 2, 3, 4, 8, 16}) {
    const RingLayout ring = ring_of(every, 5);
    RingCursor cursor;
    int64_t fed = 0, written = 0;  // rows that stay, and how many of them the state has
    for (int i = 0; i < 500; i++) {
      const int64_t rows = 1 + i * 7 % 5;
      const bool revocable = rows > 1;
      const RingStep step = ring_step(ring, cursor, rows, revocable);
      EXPECT_EQ(step.held, fed - written);
      if (step.keeps == 0) written = fed + rows;
      written += step.keeps != 0 ? step.write_at : 0;
      EXPECT_LE(written, revocable ? fed : fed + rows);
      EXPECT_EQ(written % every, 0) << "M " << every;
      EXPECT_LT(cursor.first, ring.rows);
      EXPECT_LE(cursor.held, ring.rows);
      fed += rows;
      const int32_t back = revocable ? i * 3 % static_cast<int>(rows) : 0;
      EXPECT_LE(back, cursor.revocable);
      cursor.held -= back;
      fed -= back;
      EXPECT_EQ(cursor.held, fed - written);
    }
  }
}

}  // namespace
}  // namespace fulmar
