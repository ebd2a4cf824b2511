// Renews this worker's record in a directory every other second. Knows no engine.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/thread.h"
#include "cache/worker_directory.h"

namespace fulmar {

class Heartbeat {
 public:
  Heartbeat(std::unique_ptr<WorkerDirectory> directory, WorkerRecord worker);
  ~Heartbeat();  // withdraws the record
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Marks the record, at once, so that the worker gets no new sessions.
  void drain();

 private:
  void run();

  const std::unique_ptr<WorkerDirectory> directory_;  // the thread's own
  std::mutex mutex_;
  std::condition_variable changed_;
  WorkerRecord worker_;
  bool told_ = true;  // false: the record has changed since it was last renewed
  bool ending_ = false;
  Thread thread_;
};

}  // namespace fulmar
