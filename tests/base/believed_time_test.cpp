// What a clock that jumps can make things age by.
#include "base/believed_time.h"

#include <gtest/gtest.h>

#include <random>

namespace fulmar {
namespace {

constexpr double kHour = 3600, kDay = 24 * kHour, kYear = 365 * kDay;
constexpr double kStart = 1.8e9;

TEST(BelievedTimes, FollowAClockThatGoesAsTimeDoes) {
  BelievedTime time = believe({}, kStart, 0, kDay);
  for (int i = 1; i <= 100; ++i) {
    time = believe(time, kStart + i * kHour, kHour, kDay);
    EXPECT_EQ(time.now, kStart + i * kHour);
  }
}

TEST(BelievedTimes, FollowAcrossPausesThatTheCreditCovers) {
  BelievedTime time = believe({}, kStart, 0, kDay);
  double wall = kStart;
  for (int i = 0; i < 100; ++i) {  // twelve hours off, twelve hours on
    time = believe(time, wall += kDay / 2, 0, kDay);
    EXPECT_EQ(time.now, wall);
    time = believe(time, wall += kDay / 2, kDay / 2, kDay);
    EXPECT_EQ(time.now, wall);
  }
}

// Whatever a wall clock says, and however often the process begins anew: time goes on as it was seen to pass,
// at most at twice that speed and the first credit, and never back.
TEST(BelievedTimes, NoJumpAgesByMoreThanTheCredit) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> some(0, 1);
  for (int run = 0; run < 200; ++run) {
    const double most = kHour + some(random) * kDay;
    BelievedTime time = believe({}, kStart, 0, most);
    double passed = 0;
    for (int step = 0; step < 300; ++step) {
      const double jump = (some(random) - 0.5) * 40 * kYear,
                   moment = some(random) < 0.3 ? 0 : some(random) * 60;
      passed += moment;
      const BelievedTime next = believe(time, kStart + passed + jump, moment, most);
      EXPECT_GE(next.now, time.now + moment - 1e-6);
      EXPECT_LE(next.now, kStart + 2 * passed + most + 1e-3);
      time = next;
    }
  }
}

TEST(BelievedTimes, AgeByWhatPassesWhileTheClockIsBehind) {
  const BelievedTime time = believe({}, kStart, 0, kDay);
  EXPECT_EQ(believe(time, kStart - 20 * kYear, 60, kDay).now, kStart + 60);
}

TEST(BelievedTimes, CreditIsADayOfLongLivesAndAnHourOfShortOnes) {
  EXPECT_EQ(credit_for(30 * kDay), kDay);
  EXPECT_EQ(credit_for(kDay), kHour);
  EXPECT_EQ(credit_for(5), kHour);
}

}  // namespace
}  // namespace fulmar
