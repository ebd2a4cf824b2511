// What follows from one option of an engine.
#include "app/served/engine_bounds.h"

#include <gtest/gtest.h>

#include <limits>

namespace fulmar {
namespace {

constexpr size_t kMiB = 1 << 20;

TEST(EngineBounds, WithoutBudgetsTheUsualNumbersHold) {
  const CacheShares shares = share_caches({}, 33 * kMiB, 32 * kMiB);
  EXPECT_EQ(shares.device_sessions, 16);
  EXPECT_EQ(shares.device_prefixes, 16);
  EXPECT_EQ(shares.host_sessions, 32);
  EXPECT_EQ(shares.host_prefix_mib, 512);
}

TEST(EngineBounds, ABudgetIsHalvedAndNeverExceeded) {
  for (const double mib : {0.0, 0.5, 3.0, 100.0, 4096.5}) {
    for (const size_t bytes : {kMiB / 2, kMiB, 33 * kMiB}) {
      const CacheShares shares = share_caches({.device_mib = mib, .host_mib = mib}, bytes, bytes);
      EXPECT_LE(static_cast<double>(shares.device_states()) * static_cast<double>(bytes), mib * kMiB);
      EXPECT_GT(static_cast<double>(shares.device_states() + 1) * static_cast<double>(bytes), mib * kMiB);
      EXPECT_GE(shares.device_sessions, shares.device_prefixes);
      EXPECT_LE(shares.device_sessions - shares.device_prefixes, 1);
      EXPECT_EQ(shares.host_prefix_mib, mib / 2);
      EXPECT_LE(static_cast<double>(shares.host_sessions) * static_cast<double>(bytes), mib / 2 * kMiB);
      EXPECT_GT(static_cast<double>(shares.host_sessions + 1) * static_cast<double>(bytes), mib / 2 * kMiB);
    }
  }
}

TEST(EngineBounds, OneBudgetLeavesTheOtherPlaceAsItIs) {
  EXPECT_EQ(share_caches({.device_mib = 4}, kMiB, kMiB).host_sessions, 32);
  EXPECT_EQ(share_caches({.host_mib = 4}, kMiB, kMiB).device_states(), 32);
}

TEST(EngineBounds, SessionsHaveAPlaceSomewhere) {
  for (const double mib : {0.0, 0.5, 1.0, 2.0}) {
    const CacheShares none = share_caches({.device_mib = mib, .host_mib = 0}, kMiB, kMiB);
    EXPECT_EQ(check_room_for_sessions(none, false, kMiB).ok(), mib >= 1) << mib;
    EXPECT_TRUE(check_room_for_sessions(none, true, kMiB).ok());
    const CacheShares host = share_caches({.device_mib = 0, .host_mib = mib}, kMiB, kMiB);
    EXPECT_EQ(check_room_for_sessions(host, false, kMiB).ok(), mib >= 2) << mib;
  }
}

TEST(EngineBounds, WhatWaitsFollowsFromTheQueue) {
  const auto usual = waiting_bounds(1000, {}, {});
  EXPECT_EQ(usual.rows, 65536);
  EXPECT_EQ(usual.bytes, 256 << 20);
  const auto few = waiting_bounds(1, {}, {});
  EXPECT_EQ(few.rows, usual.rows);
  EXPECT_EQ(few.bytes, usual.bytes);
  const auto many = waiting_bounds(8000, {}, {});
  EXPECT_EQ(many.rows, 512000);
  EXPECT_EQ(many.bytes, int64_t{2000} << 20);
  const auto most = waiting_bounds(std::numeric_limits<int64_t>::max(), {}, {});
  EXPECT_EQ(most.rows, std::numeric_limits<int64_t>::max());
  const auto said = waiting_bounds(8000, 5, 7);
  EXPECT_EQ(said.rows, 5);
  EXPECT_EQ(said.bytes, 7 << 20);
}

}  // namespace
}  // namespace fulmar
