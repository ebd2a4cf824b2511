// Tokens per second over the last second or so, decaying to zero when nothing happens.
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
  }
  double per_second(Clock::time_point now) {
    decay(now);
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
};

}  // namespace fulmar
