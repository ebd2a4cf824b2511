// A rank: one of the devices that compute a model together, and the thread that drives it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/function_ref.h"
#include "base/job_thread.h"
#include "ops/ops.h"

namespace fulmar {

// Work runs in the order in which it was posted.
class Rank {
 public:
  enum class Drive : uint8_t {
    // The only rank, or the first of several: work runs on the caller's thread, at once, and what it throws
    // goes to the caller.
    leader,
    // Work runs on a thread of the rank's own, so that ranks compute at the same time. What work throws ends
    // the rank: later work is dropped, and run() throws.
    thread,
  };
  // Starts a rank. `ops` outlives it; until then nobody else calls `ops`, except for its facts.
  Rank(Ops& ops, Drive drive);
  ~Rank();  // waits for all that was posted
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Ops& ops() const { return ops_; }
  bool threaded() const { return thread_ != nullptr; }

  // Posts work and does not wait for it; a leader runs it before it returns.
  void post(std::function<void()> work);
  // Runs work after all that was posted, and waits for it. Throws DeviceFailure where a thread's rank has
  // ended.
  void run(FunctionRef<void()> work);
  // Waits for what was posted, whether the rank has ended or not.
  void finish();

  // Returns why a thread's rank has ended; empty: it has not.
  std::string failure() const;
  // Sets a function that is called on the rank's thread when work has thrown.
  void on_failure(std::function<void(const std::string& reason)> tell) { tell_ = std::move(tell); }

 private:
  void lead(FunctionRef<void()> work) const;
  void attempt(FunctionRef<void()> work);
  void tell(const std::string& reason) const;

  Ops& ops_;
  std::function<void(const std::string&)> tell_;
  mutable std::mutex mutex_;
  std::string failure_;  // under mutex_
  std::unique_ptr<JobThread> thread_;
};

}  // namespace fulmar
