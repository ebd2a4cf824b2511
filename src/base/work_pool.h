// Threads that do the work of requests before the engine runs. One client's jobs run one after the other, so
// that however many it sends, others' find a thread; one thread is kept for light ones.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "base/fair_queue.h"
#include "base/thread.h"

namespace fulmar {

class WorkPool {
 public:
  // `name` is for the log. threads: at least 2.
  WorkPool(std::string name, size_t threads, size_t most_waiting, size_t most_of_share);
  ~WorkPool();  // finish()
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Runs the job under its meter. False, and the job is dropped, when too many wait or finish() has begun.
  // An exception ends that job alone: it is logged.
  bool post(ClientJob job);
  // Stops the meters of all jobs, those that are still to come too: each ends at its next step.
  void stop_work();
  // stop_work(); lets what waits end, refuses more, and ends the threads. Idempotent; not to be called by a
  // job.
  void finish();

 private:
  void work(size_t index);
  void run(ClientJob& job, size_t index);

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  FairQueue queue_;
  std::vector<std::shared_ptr<Meter>> running_;  // by thread; null: idle
  bool stopped_ = false;                         // stop_work()
  bool closed_ = false;                          // finish()
  std::vector<Thread> threads_;
};

}  // namespace fulmar
