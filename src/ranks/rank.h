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

// Work runs in the order in which it comes. Among several ranks each has a thread of its own, so that they
// compute at the same time; a lone rank's work runs on the caller's thread, at once.
class Rank {
 public:
  enum class Drive : uint8_t { caller, thread };
  // `ops` outlives the rank, and nobody else calls it meanwhile but for its facts.
  Rank(Ops& ops, Drive drive);
  ~Rank();  // behind all that was posted
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Ops& ops() const { return ops_; }
  bool threaded() const { return thread_ != nullptr; }

  // Begins work and does not wait for it; on the caller's thread it is done on return. Whatever is thrown
  // ends the rank: later work is dropped, and run() tells.
  void post(std::function<void()> work);
  // Waits for the work and all before it. Throws DeviceFailure where the rank has ended.
  void run(FunctionRef<void()> work);
  // Waits for what was posted, whether the rank has ended or not.
  void finish();

  // Why the rank has ended; empty: it has not.
  std::string failure() const;
  // `tell` is called once, on the rank's thread, when it ends by a failure.
  void on_failure(std::function<void(const std::string& reason)> tell) { tell_ = std::move(tell); }

 private:
  void attempt(FunctionRef<void()> work);
  void fail(const std::string& reason);

  Ops& ops_;
  std::function<void(const std::string&)> tell_;
  mutable std::mutex mutex_;
  std::string failure_;  // under mutex_
  std::unique_ptr<JobThread> thread_;
};

}  // namespace fulmar
