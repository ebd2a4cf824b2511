// Rate limits by a token bucket: so many units a minute, of which a minute's worth is saved up at most.
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
  // `per_minute` 0: no limit. Begins full.
  RateLimit(int64_t per_minute, Clock::time_point now)
      : per_minute_(static_cast<double>(per_minute)), remaining_(per_minute_), at_(now) {}

  // The same account under another limit: what was used stays used.
  void change(int64_t per_minute, Clock::time_point now) {
    refill(now);
    const double used = per_minute_ - remaining_;
    const bool limited = per_minute_ > 0;
    per_minute_ = static_cast<double>(per_minute);
    remaining_ = limited ? per_minute_ - used : per_minute_;
  }

  // Seconds until `least` units are there; 0 when they are now. More than a minute's worth is never there:
  // then the wait is for a full bucket.
  double wait_for(double least, Clock::time_point now) {
    if (per_minute_ == 0) return 0;
    refill(now);
    return std::max(0.0, std::min(least, per_minute_) - remaining_) * 60 / per_minute_;
  }
  // What is not known beforehand may take the account below zero.
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
