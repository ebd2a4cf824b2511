// How slowly a body may arrive. Pure: the caller tells the time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace fulmar {

// Each `span` must bring its share of bytes, or the rest of the body; a fast beginning does not count later.
// So a body that stops arriving lasts one span at most.
class BodyPace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kBytesPerSecond = size_t{16} << 10;

  BodyPace(std::chrono::milliseconds span, Clock::time_point now) : span_(span), deadline_(now + span) {}

  void came(size_t bytes, Clock::time_point now) {
    since_ += bytes;
    if (since_ < share()) return;
    since_ = 0;
    deadline_ = now + span_;
  }
  Clock::time_point deadline() const { return deadline_; }
  // Returns the bytes that each span must bring.
  size_t share() const {
    return std::max<size_t>(1, static_cast<size_t>(span_.count()) * kBytesPerSecond / 1000);
  }

 private:
  std::chrono::milliseconds span_;
  Clock::time_point deadline_;
  size_t since_ = 0;
};

}  // namespace fulmar
