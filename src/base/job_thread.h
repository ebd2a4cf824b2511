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
  // Starts the thread; `name` is for the log. `most_waiting` bounds the queue (0: no bound). `spin`: how long
  // the thread polls for another job before it sleeps; a sleeping thread takes tens of microseconds to wake.
  JobThread(std::string name, size_t most_waiting, std::chrono::microseconds spin = {});
  ~JobThread();  // finish()
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  // Queues a job. Returns false, and drops the job, when the queue is full or finish() has begun. An
  // exception ends that job alone: it is logged, and what the job held is released.
  bool post(std::function<void()> job);
  // Runs all waiting jobs, refuses new ones, and ends the thread. Idempotent; a job must not call it.
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
