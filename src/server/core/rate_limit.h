// Rate limits by a token bucket, which refills at N units a minute and holds at most N.
// Pure: the time is handed in.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace fulmar {

class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  RateLimit() = default;  // no limit
  // Starts with a full bucket. `per_minute` 0: no limit.
  RateLimit(int64_t per_minute, Clock::time_point now)
      : per_minute_(static_cast<double>(per_minute)), remaining_(per_minute_), at_(now) {}

  // Changes the limit; what was used stays used.
  void change(int64_t per_minute, Clock::time_point now) {
    refill(now);
    const double used = per_minute_ - remaining_;
    const bool limited = per_minute_ > 0;
    per_minute_ = static_cast<double>(per_minute);
    remaining_ = limited ? per_minute_ - used : per_minute_;
  }

  // Returns the seconds until `least` units are available, 0 when they are now. A bucket holds at most a
  // minute's worth: for more than that the wait is until it is full.
  double wait_for(double least, Clock::time_point now) {
    if (per_minute_ == 0) return 0;
    refill(now);
    return std::max(0.0, std::min(least, per_minute_) - remaining_) * 60 / per_minute_;
  }
  // Takes units, if need be below zero: the tokens of an answer are known only afterwards.
  void take(double units, Clock::time_point now) {
    if (per_minute_ == 0) return;
    refill(now);
    remaining_ -= units;
  }

 private:
  void refill(Clock::time_point now) {
    if (now <= at_) return;
    remaining_ = std::min(per_minute_,
                          remaining_ + std::chrono::duration<double>(now - at_).count() * per_minute_ / 60);
    at_ = now;
  }

  double per_minute_ = 0;
  double remaining_ = 0;
  Clock::time_point at_{};
};

}  // namespace fulmar
