#include "load/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fulmar {
namespace {

TEST(Statistics, NothingGivesZeros) {
  const Summary summary = summarize({});
  EXPECT_EQ(summary.count, 0u);
  EXPECT_EQ(summary.p99, 0);
}

TEST(Statistics, OneSampleIsEverything) {
  const Summary summary = summarize({7});
  EXPECT_EQ(summary.mean, 7);
  EXPECT_EQ(summary.median, 7);
  EXPECT_EQ(summary.p99, 7);
  EXPECT_EQ(summary.deviation, 0);
}

TEST(Statistics, SamplesComeInAnyOrder) {
  const Summary summary = summarize({4, 1, 3, 2});
  EXPECT_EQ(summary.count, 4u);
  EXPECT_DOUBLE_EQ(summary.mean, 2.5);
  EXPECT_DOUBLE_EQ(summary.median, 2.5);
  EXPECT_DOUBLE_EQ(summary.deviation, std::sqrt(1.25));
}

TEST(Statistics, QuantilesLieBetweenNeighbours) {
  const std::vector<double> sorted = {0, 10, 20, 30, 40};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0), 0);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.25), 10);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.99), 39.6);
  EXPECT_DOUBLE_EQ(quantile(sorted, 1), 40);
}

}  // namespace
}  // namespace fulmar
