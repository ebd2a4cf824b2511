// Threads that prepare requests before the engine runs. Jobs of one client run one at a time, so that others
// find a free thread however many jobs it sends; one thread is reserved for light jobs.
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
  // Starts the threads. `name` is for the log; `threads` is at least 2; for the rest see FairQueue.
  WorkPool(std::string name, size_t threads, size_t most_waiting, size_t most_of_share);
  ~WorkPool();  // finish()
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Queues a job, to run under its meter. Returns false, and drops the job, when too many wait or finish()
  // has begun. An exception ends that job alone: it is logged.
  bool post(ClientJob job);
  // Stops the meters of all jobs, present and future: each job ends at its next counted step.
  void stop_work();
  // Calls stop_work(), lets waiting jobs end, refuses new ones, and ends the threads. Idempotent; a job must
  // not call it.
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
