// Which rows of a step adapters change, and in what ranges.
#include "ops/deltas.h"

#include <gtest/gtest.h>

#include "ops/batch.h"

namespace fulmar {
namespace {

struct Range {
  int64_t first, count;
  const DeltaSet* by;
  float scale;
  bool operator==(const Range&) const = default;
};

std::vector<Range> plain(const std::vector<DeltaRows>& rows) {
  std::vector<Range> out;
  for (const DeltaRows& one : rows) out.push_back({one.first, one.count, one.by.deltas, one.by.scale});
  return out;
}

TEST(Deltas, NeighboursWithEqualDeltasAreOneRange) {
  const DeltaSet a, b;
  const std::vector<int32_t> token(9), start{0, 2, 3, 5, 6, 7, 9}, slot{4, 0, 1, 2, 3, 5},
      wanted{1, 2, 5, 6, 8};
  const std::vector<SequenceDeltas> deltas{{&a, 1}, {&a, 1}, {&a, 0.5f}, {nullptr, 1}, {&b, 1}, {&b, 0}};
  const StepDeltas found =
      deltas_of({.token = token, .start = start, .slot = slot, .wanted = wanted, .deltas = deltas});
  EXPECT_EQ(plain(found.packed), (std::vector<Range>{{0, 3, &a, 1}, {3, 2, &a, 0.5f}, {6, 1, &b, 1}}));
  EXPECT_EQ(plain(found.wanted), (std::vector<Range>{{0, 2, &a, 1}, {3, 1, &b, 1}}));
}

TEST(Deltas, AStepWithoutAnyHasNone) {
  const std::vector<int32_t> token(2), start{0, 1, 2}, slot{0, 1}, wanted{0, 1};
  EXPECT_TRUE(deltas_of({.token = token, .start = start, .slot = slot, .wanted = wanted}).empty());
  const std::vector<SequenceDeltas> none(2);
  const StepDeltas found =
      deltas_of({.token = token, .start = start, .slot = slot, .wanted = wanted, .deltas = none});
  EXPECT_TRUE(found.empty());
  EXPECT_TRUE(found.wanted.empty());
}

}  // namespace
}  // namespace fulmar
