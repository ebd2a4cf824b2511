// Work on a rank: in order, at the same time as other ranks', and what a failure leaves.
#include "ranks/rank.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "cpu/cpu_ops.h"
#include "ops/device.h"

namespace fulmar {
namespace {

class RankTest : public testing::TestWithParam<Rank::Drive> {
 protected:
  const std::unique_ptr<Ops> ops_ = make_cpu_ops({.threads = 1});
  Rank rank_{*ops_, GetParam()};
};

TEST_P(RankTest, WorkRunsInTheOrderInWhichItComes) {
  std::vector<int> seen;
  for (int i = 0; i < 100; i++) rank_.post([&seen, i] { seen.push_back(i); });
  rank_.run([&] { seen.push_back(100); });
  ASSERT_EQ(seen.size(), 101u);
  for (int i = 0; i <= 100; i++) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

INSTANTIATE_TEST_SUITE_P(Drives, RankTest, testing::Values(Rank::Drive::leader, Rank::Drive::thread));

TEST(LeadingRank, RunsWorkOnTheCallersThreadAndWhatThatThrowsIsToldAndGoesThrough) {
  const auto ops = make_cpu_ops({.threads = 1});
  Rank rank(*ops, Rank::Drive::leader);
  EXPECT_FALSE(rank.threaded());
  std::thread::id seen;
  rank.post([&] { seen = std::this_thread::get_id(); });
  EXPECT_EQ(seen, std::this_thread::get_id());

  EXPECT_THROW(rank.post([] { throw std::bad_alloc(); }), std::bad_alloc) << "nobody to tell";
  std::vector<std::string> told;
  rank.on_failure([&](const std::string& reason) { told.push_back(reason); });
  EXPECT_THROW(rank.run([] { throw DeviceFailure("the bus has gone"); }), DeviceFailure);
  EXPECT_EQ(told, std::vector<std::string>{"the bus has gone"});
  bool later = false;
  rank.run([&] { later = true; });
  EXPECT_TRUE(later) << "whether the device still answers it says itself";
}

class Threaded : public testing::Test {
 protected:
  const std::unique_ptr<Ops> ops_ = make_cpu_ops({.threads = 1});
  Rank rank_{*ops_, Rank::Drive::thread};
};

TEST_F(Threaded, PostedWorkIsNotWaitedFor) {
  std::promise<void> go;
  bool done = false;
  rank_.post([&] {
    go.get_future().wait();
    done = true;
  });
  go.set_value();  // would never come if the work ran here
  rank_.finish();
  EXPECT_TRUE(done);
}

TEST_F(Threaded, AFailureEndsTheRankAndIsToldOnce) {
  int told = 0;
  bool later = false;
  rank_.on_failure([&](const std::string& reason) {
    told++;
    EXPECT_EQ(reason, "the bus has gone");
  });
  rank_.post([] { throw DeviceFailure("the bus has gone"); });
  rank_.post([&] { later = true; });
  EXPECT_THROW(rank_.run([&] { later = true; }), DeviceFailure);
  EXPECT_FALSE(later);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(rank_.failure(), "the bus has gone");
  rank_.finish();
}

TEST_F(Threaded, DroppedWorkLetsGoOfWhatItHolds) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = held;
  rank_.post([] { throw DeviceFailure("the bus has gone"); });
  rank_.post([held = std::move(held)] { (void)held; });
  rank_.finish();
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace fulmar
