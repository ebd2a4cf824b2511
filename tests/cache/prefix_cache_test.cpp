// Snapshots of prompt beginnings: what is kept where, and how much may be copied at once.
#include "cache/prefix_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <optional>

#include "cpu/cpu_ops.h"
#include "model/state_pool.h"

namespace fulmar {
namespace {

constexpr StateLayout kLayout{
    .n_layer = 1, .n_embd = 64, .n_head = 1, .head_size = 64, .fields = kShiftsAndWkv};

std::vector<int32_t> prompt(int32_t first) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 20; i++) tokens.push_back(first + i);
  return tokens;
}

// One running slot, 0, whose state's first bytes are its prompt's first token, and two slots of the cache.
class Cache : public testing::Test {
 protected:
  void start(double snapshots_per_second) {
    const size_t bytes = kLayout.slot_bytes();
    const auto rate = static_cast<size_t>(snapshots_per_second * static_cast<double>(bytes));
    cache_.emplace(pool_, std::vector<int64_t>{1, 2},
                   PrefixCacheOptions{.host_bytes = 4 * bytes, .host_bytes_per_second = rate});
    start_ = std::chrono::steady_clock::now();
  }
  void save(int32_t first) {
    write(first);
    cache_->save({}, prompt(first), 0);
  }
  // The mark that a restored state bears; -1 where there is none.
  int32_t restored(int32_t first) {
    write(-1);
    auto tokens = prompt(first);
    tokens.push_back(0);
    if (cache_->restore({}, tokens, 0) == 0) return -1;
    int32_t mark;
    const auto state = pool_.read(0);
    std::memcpy(&mark, state.data(), sizeof(mark));
    return mark;
  }
  void write(int32_t mark) {
    std::vector<std::byte> state(kLayout.slot_bytes());
    std::memcpy(state.data(), &mark, sizeof(mark));
    ASSERT_TRUE(pool_.set(0, state).ok());
  }

  std::unique_ptr<Ops> ops_ = make_cpu_ops({.threads = 1});
  StatePool pool_ = *StatePool::make(*ops_, kLayout, 3);
  std::optional<PrefixCache> cache_;
  std::chrono::steady_clock::time_point start_;
};

TEST_F(Cache, WhatGivesWayOnTheDeviceGoesToTheHost) {
  start(1e9);
  for (int32_t i = 0; i < 6; i++) {
    save(100 * i);
    cache_->prepare();
  }
  EXPECT_EQ(cache_->counters().device_entries, 2);
  EXPECT_EQ(cache_->counters().host_entries, 4);
  for (int32_t i = 0; i < 6; i++) EXPECT_EQ(restored(100 * i), 100 * i);
  EXPECT_EQ(cache_->counters().host_hits, 4);
  save(600);
  EXPECT_EQ(cache_->counters().host_entries, 4) << "the host's memory is used up";
  EXPECT_EQ(cache_->counters().host_bytes, 4 * kLayout.slot_bytes());
  cache_->clear();
  EXPECT_EQ(restored(600), -1);
}

TEST_F(Cache, ABeginningThatIsSharedOutlivesManyThatNobodyComesBackTo) {
  start(0);  // nothing goes to the host
  save(0);
  EXPECT_EQ(restored(0), 0);
  for (int32_t i = 1; i < 20; i++) save(100 * i);
  EXPECT_EQ(restored(0), 0);
  EXPECT_EQ(restored(1800), -1) << "they have the other slot";
  EXPECT_EQ(restored(1900), 1900);
}

TEST_F(Cache, SharedBeginningsHaveHalfOfTheSlotsAndTheOldestOfThemGoes) {
  start(0);
  for (const int32_t first : {0, 100, 200}) {
    save(first);
    EXPECT_EQ(restored(first), first);
  }
  EXPECT_EQ(restored(0), -1);
  save(300);
  EXPECT_EQ(restored(100), -1) << "two that were met hold more than one of two slots";
  EXPECT_EQ(restored(200), 200);
  EXPECT_EQ(restored(300), 300);
}

TEST_F(Cache, RunningStreamsWaitForOneCopyAtATime) {
  constexpr double kPerSecond = 10;
  start(kPerSecond);
  for (int32_t i = 0; i < 6; i++) save(100 * i);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_;
  EXPECT_GE(cache_->counters().host_entries, 1);
  EXPECT_LE(static_cast<double>(cache_->counters().host_entries), 1 + taken.count() * kPerSecond);
  EXPECT_EQ(restored(500), 500);
}

}  // namespace
}  // namespace fulmar
