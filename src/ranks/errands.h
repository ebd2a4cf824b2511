// Work that one rank has the others of its group do in the middle of a step, on the threads that drive them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

namespace fulmar {

// The leader asks while it takes a step's outputs; each follower runs what is asked, in order, until the
// leader has said that this step's errands are over.
class Errands {
 public:
  // `follower` counts from 1: the rank that runs the work. What it refers to lives until all have run it.
  using Work = std::function<void(size_t follower)>;
  explicit Errands(size_t followers) : done_(followers, 0) {}

  // The leader's: begins work and does not wait for it.
  void ask(Work work);
  void step_over();
  // A follower's, once a step. Throws DeviceFailure once closed, and whatever the work throws.
  void follow(size_t follower);
  // From any thread: nobody waits any more.
  void close(const std::string& reason);

 private:
  void append(Work work);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;     // not yet run by all; an empty one ends a step
  int64_t forgotten_ = 0;     // run by all
  std::deque<int64_t> done_;  // by each follower, counted from the first ever
  bool closed_ = false;
  std::string reason_;
};

}  // namespace fulmar
