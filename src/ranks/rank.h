// A rank: one of the devices that compute a model together, and what drives it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/function_ref.h"
#include "base/job_thread.h"
#include "ops/ops.h"

namespace fulmar {

// Work runs in the order in which it comes.
class Rank {
 public:
  enum class Drive : uint8_t {
    // The only rank, or the first of several: on the caller's thread, at once. What work throws goes through
    // to the caller.
    leader,
    // On a thread of its own, so that ranks compute at the same time. What work throws ends the rank: later
    // work is dropped, and run() tells.
    thread,
  };
  // `ops` outlives the rank, and nobody else calls it meanwhile but for its facts.
  Rank(Ops& ops, Drive drive);
  ~Rank();  // behind all that was posted
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Ops& ops() const { return ops_; }
  bool threaded() const { return thread_ != nullptr; }

  // Begins work and does not wait for it; a leader's is done on return.
  void post(std::function<void()> work);
  // Waits for the work and all before it. Throws DeviceFailure where a thread's rank has ended.
  void run(FunctionRef<void()> work);
  // Waits for what was posted, whether the rank has ended or not.
  void finish();

  // Why a thread's rank has ended; empty: it has not.
  std::string failure() const;
  // `tell` is called on the thread that drives the rank when work has thrown.
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
