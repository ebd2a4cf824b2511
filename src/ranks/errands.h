// Work that the leading rank hands to the other ranks of its group in the middle of a step, to run on their
// threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

namespace fulmar {

// The leader asks while it takes a step's outputs; each follower runs what is asked, in order, until the
// leader ends the step's errands (step_over).
class Errands {
 public:
  // `follower` counts from 1: the rank that runs the work. What the work refers to lives until all have run
  // it.
  using Work = std::function<void(size_t follower)>;
  explicit Errands(size_t followers) : done_(followers, 0) {}

  // Begins work and does not wait for it. The leader calls.
  void ask(Work work);
  void step_over();
  // Runs the work of one step. A follower calls, once a step. Throws DeviceFailure once closed, and what the
  // work throws.
  void follow(size_t follower);
  // Ends all waits. Call from any thread.
  void close(const std::string& reason);

 private:
  void append(Work work);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;     // not yet run by all; an empty one ends a step
  int64_t forgotten_ = 0;     // number that all have run
  std::deque<int64_t> done_;  // number that each follower has run
  bool closed_ = false;
  std::string reason_;
};

}  // namespace fulmar
