// Keeps workers running: one thread that spawns, watches, probes, restarts and stops them. Every other thread
// sees immutable snapshots and sends commands. Knows no route and no client.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/event_log.h"
#include "control/history.h"
#include "control/worker_view.h"

namespace fulmar {

struct SupervisorOptions {
  std::string program;    // what `serve` is a command of
  std::string password;   // handed to the workers, and used to ask them
  std::string state_dir;  // where the workers' session files lie; empty: the working directory
  BackOff back_off;
  std::chrono::milliseconds grace{8'000};            // from SIGTERM to SIGKILL
  std::chrono::milliseconds start_probe_every{200};  // until a worker is ready
  std::chrono::milliseconds probe_every{1'000};      // afterwards
  std::chrono::milliseconds history_every{5'000};
};

class Supervisor {
 public:
  // Replies run on the supervisor's thread and must not block.
  using StartReply = std::function<void(Result<WorkerPtr>)>;
  using StopReply = std::function<void()>;
  using DoneReply = std::function<void(Status)>;

  explicit Supervisor(SupervisorOptions options);
  ~Supervisor();  // stop_all()
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts a worker; when the reply comes it runs, but its model may still be loading. Replies with an Error
  // of kind io where the program cannot be run, conflict where another worker has the port.
  void start(WorkerSpec spec, StartReply reply);
  // Stops a worker by SIGTERM, and by SIGKILL after the grace period; replies once it has ended, at once if
  // it had already. For an unknown id returns not_found and never replies.
  Status stop(std::string_view id, StopReply reply);
  // Hides the worker from routing and stops it when its last request has ended, at the latest after `most`.
  Status drain(std::string_view id, std::chrono::milliseconds most);
  // Ends the worker's run as drain() does and begins another; at once where it has ended. The reply comes
  // when that has begun: not_found for an unknown id, conflict when another worker has its port.
  void restart(std::string id, std::chrono::milliseconds most, DoneReply reply);
  // Restarts every running worker, one after the other: each only when the one before is ready again. Ends
  // early where one does not come back.
  void restart_all(std::chrono::milliseconds most_each);
  // Forgets a worker that has ended: not_found for an unknown id, conflict for one that runs.
  void remove(std::string id, DoneReply reply);
  // Makes the configured workers be those of `wanted`: starts the missing, drains those that are gone,
  // replaces those whose description has changed. Workers that no configuration describes are left alone.
  void reconcile(std::vector<WorkerSpec> wanted);
  // Stops every worker and waits for their end. Later commands are refused. Idempotent.
  void stop_all();

  FleetPtr fleet() const;
  const History& history() const;
  const EventLog& events() const;

 private:
  class Loop;
  const std::unique_ptr<Loop> loop_;
};

}  // namespace fulmar
