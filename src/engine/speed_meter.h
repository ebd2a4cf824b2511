// A meter of tokens per second over about the last second, falling to zero when nothing happens.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

namespace fulmar {

class SpeedMeter {
 public:
  using Clock = std::chrono::steady_clock;

  void add(int64_t tokens, Clock::time_point now) {
    decay(now);
    weight_ += static_cast<double>(tokens) / kWindowSeconds;
    if (tokens > 0) last_token_ = now;
  }
  // Returns the speed; exactly 0 once the last token is two windows old.
  double per_second(Clock::time_point now) {
    decay(now);
    if (std::chrono::duration<double>(now - last_token_).count() >= 2 * kWindowSeconds) weight_ = 0;
    return weight_;
  }

 private:
  static constexpr double kWindowSeconds = 1.0;

  void decay(Clock::time_point now) {
    const double passed = std::chrono::duration<double>(now - last_).count();
    if (passed > 0) weight_ *= std::exp(-passed / kWindowSeconds);
    last_ = now;
  }

  double weight_ = 0;
  Clock::time_point last_ = Clock::now();
  Clock::time_point last_token_ = last_;
};

}  // namespace fulmar
