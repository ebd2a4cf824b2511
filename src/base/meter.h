// What the work for one request may cost before the engine runs: bytes touched and steps, counted where the
// work is done. Whoever reads what a client sent pays here, so that no field can hold a thread for long.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace fulmar {

// Thrown out of metered work: it goes on no longer. No std::exception, so that no reader which turns a
// library's exceptions into errors can take it for one.
struct WorkEnded {
  uint64_t limit = 0;  // that was passed; 0: nobody wants the work any more
};

// One thread works for a meter at a time; stop() and the getters may be called by any.
class Meter {
 public:
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  explicit Meter(uint64_t limit = kNoLimit) : limit_(limit) {}
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Adds to what was used. Throws WorkEnded beyond the limit and after stop().
  void count(uint64_t steps) {
    const uint64_t before = used_.load(std::memory_order_relaxed);
    const uint64_t sum = steps > kNoLimit - before ? kNoLimit : before + steps;
    used_.store(sum, std::memory_order_relaxed);
    if (sum > limit_) throw WorkEnded{limit_};
    if (stopped_.load(std::memory_order_relaxed)) throw WorkEnded{};
  }
  // The client has left, or the server ends.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }
  // For work that returns early instead of throwing. Valid as long as the meter.
  const std::atomic<bool>& stopped() const { return stopped_; }

  // While it lives, count_work of its thread pays to `meter`. Scopes nest: the innermost is paid.
  class Scope {
   public:
    explicit Scope(Meter& meter);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Meter* const outer_;
  };

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
  std::atomic<bool> stopped_{false};
};

// The meter that this thread works for; null: nobody counts, as in tests and on the command line.
Meter* current_meter();

// Pays `steps`, a byte touched or a turn of a loop each, to the meter of this thread. Throws WorkEnded.
inline void count_work(uint64_t steps) {
  if (Meter* const meter = current_meter()) meter->count(steps);
}

}  // namespace fulmar
