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

// Work runs in the order in which it comes, and whatever it throws ends the rank: later work is dropped, and
// run() tells.
class Rank {
 public:
  enum class Drive : uint8_t {
    alone,   // no other rank: on the caller's thread, at once; what is thrown goes through to the caller
    leader,  // on the caller's thread as well, before others that have threads
    thread,  // on a thread of its own, so that ranks compute at the same time
  };
  // `ops` outlives the rank, and nobody else calls it meanwhile but for its facts.
  Rank(Ops& ops, Drive drive);
  ~Rank();  // behind all that was posted
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Ops& ops() const { return ops_; }
  bool threaded() const { return thread_ != nullptr; }
  bool led() const { return drive_ == Drive::leader; }

  // Begins work and does not wait for it; on the caller's thread it is done on return.
  void post(std::function<void()> work);
  // Waits for the work and all before it. Throws DeviceFailure where the rank has ended.
  void run(FunctionRef<void()> work);
  // Waits for what was posted, whether the rank has ended or not.
  void finish();

  // Why the rank has ended; empty: it has not.
  std::string failure() const;
  // `tell` is called once, on the thread that drives the rank, when it ends by a failure.
  void on_failure(std::function<void(const std::string& reason)> tell) { tell_ = std::move(tell); }

 private:
  void attempt(FunctionRef<void()> work);
  void fail(const std::string& reason);

  Ops& ops_;
  const Drive drive_;
  std::function<void(const std::string&)> tell_;
  mutable std::mutex mutex_;
  std::string failure_;  // under mutex_
  std::unique_ptr<JobThread> thread_;
};

}  // namespace fulmar
