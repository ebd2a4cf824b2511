// The work that a request may cost before the engine runs, in steps: bytes touched and turns of loops,
// counted where they happen. All code that reads what a client sent counts here: no field can occupy a thread
// for long.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace fulmar {

// Thrown out of metered work to end it. Not a std::exception, so that code that turns a library's exceptions
// into errors cannot catch it by mistake.
struct WorkEnded {
  uint64_t limit = 0;  // the limit that was passed; 0: ended by stop()
};

// One thread works for a meter at a time; stop() and the getters may be called by any.
class Meter {
 public:
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  explicit Meter(uint64_t limit = kNoLimit) : limit_(limit) {}
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Counts `steps` as used. Throws WorkEnded beyond the limit and after stop().
  void count(uint64_t steps) {
    const uint64_t before = used_.load(std::memory_order_relaxed);
    const uint64_t sum = steps > kNoLimit - before ? kNoLimit : before + steps;
    used_.store(sum, std::memory_order_relaxed);
    if (sum > limit_) throw WorkEnded{limit_};
    if (stopped_.load(std::memory_order_relaxed)) throw WorkEnded{};
  }
  // Ends the work at its next step, because the client has left or the server ends.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }
  // Returns a flag for work that returns early instead of throwing. Valid as long as the meter.
  const std::atomic<bool>& stopped() const { return stopped_; }

  // While it lives, count_work() on its thread counts for `meter`. Scopes nest; the innermost one counts.
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

// Returns the meter that this thread works for; null where nothing is metered (tests, command line).
Meter* current_meter();

// Counts `steps`, each a byte touched or a turn of a loop, for the meter of this thread. Throws WorkEnded.
inline void count_work(uint64_t steps) {
  if (Meter* const meter = current_meter()) meter->count(steps);
}

}  // namespace fulmar
