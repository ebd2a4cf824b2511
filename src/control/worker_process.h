// One run of a worker: its process, the pipe with what it prints, and the deadline of its end. Knows no HTTP
// and no policy. Used by the supervisor's thread only.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "control/child_process.h"
#include "control/log_ring.h"

namespace fulmar {

class WorkerProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts the program; what it prints goes to `log` whenever pump() is called.
  static Result<std::unique_ptr<WorkerProcess>> start(const ChildProgram& program,
                                                      std::shared_ptr<LogRing> log);
  // Kills and reaps what still runs.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return child_.pid; }
  int output() const { return child_.output; }  // to wait on; -1 once the worker has closed it
  std::chrono::milliseconds lasted(Clock::time_point now) const;

  // Reads what has been printed, without waiting.
  void pump();
  // Sends SIGTERM now; enforce() sends SIGKILL at `kill_at`. An earlier deadline replaces a later one.
  void terminate(Clock::time_point kill_at);
  void enforce(Clock::time_point now);
  // Returns how it ended, once it has; its last output is in the log then.
  std::optional<ChildExit> take_exit();

 private:
  WorkerProcess(Child child, std::shared_ptr<LogRing> log);
  void close_output();

  Child child_;
  const std::shared_ptr<LogRing> log_;
  const Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point> kill_at_;
  std::optional<ChildExit> exit_;
};

}  // namespace fulmar
