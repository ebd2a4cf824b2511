// One thread that runs jobs one after the other, from a bounded queue.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "base/mailbox.h"
#include "base/thread.h"

namespace fulmar {

class JobThread {
 public:
  // `name` is for the log; `most_waiting`: jobs in the queue, 0 for no bound. `spin`: how long the thread
  // looks for another job before it sleeps; a sleeper takes tens of microseconds to wake.
  JobThread(std::string name, size_t most_waiting, std::chrono::microseconds spin = {});
  ~JobThread();  // finish()
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  // False, and the job is dropped, when the queue is full or finish() has begun. An exception of a job ends
  // that job alone: it is logged, and what the job held is let go.
  bool post(std::function<void()> job);
  // Runs what waits, refuses more, and ends the thread. Idempotent; not to be called by a job.
  void finish();

 private:
  void work();
  void spin() const;

  const std::string name_;
  const std::chrono::microseconds spin_;
  Mailbox<std::function<void()>> jobs_;
  Thread thread_;
};

}  // namespace fulmar
