// The meter of tokens per second.
#include "engine/speed_meter.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

using std::chrono::milliseconds;

TEST(SpeedMeter, SettlesAtTheSpeedAndFallsToZero) {
  SpeedMeter meter;
  auto now = SpeedMeter::Clock::now();
  for (int i = 0; i < 1000; ++i) meter.add(1, now += milliseconds(10));
  EXPECT_NEAR(meter.per_second(now), 100, 2);
  SpeedMeter copy = meter;  // what a reader sees without more tokens
  EXPECT_GT(copy.per_second(now + milliseconds(1000)), 0);
  EXPECT_LT(copy.per_second(now + milliseconds(1500)), 50);
  EXPECT_EQ(copy.per_second(now + milliseconds(2000)), 0);
  EXPECT_NEAR(meter.per_second(now), 100, 2);
}

}  // namespace
}  // namespace fulmar
