// One worker over all its runs: the state machine between process, probe and restart policy. Used by the
// supervisor's thread only; what it decides is in restart.h, what it does to processes in worker_process.h.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/event_log.h"
#include "control/history.h"
#include "control/metrics_text.h"
#include "control/supervisor.h"
#include "control/worker_probe.h"
#include "control/worker_process.h"
#include "control/worker_view.h"

namespace fulmar {

class SupervisedWorker {
 public:
  using Clock = std::chrono::steady_clock;

  SupervisedWorker(const SupervisorOptions& options, EventLog& events, std::string id, WorkerSpec spec,
                   std::string session_db);

  // Starts a run. On failure the worker counts as ended.
  Status start(Clock::time_point now);
  // Ends it for good; `reply`, which may be empty, is called once it has ended.
  void stop(Clock::time_point now, Supervisor::StopReply reply);
  void drain(Clock::time_point until);
  // Drains it as above, ends this run and begins another; one that has ended begins at once.
  void restart(Clock::time_point now, Clock::time_point until);
  // Handles all that is due: output, exit, kill, restart, the end of a drain.
  void attend(Clock::time_point now);

  // Returns the probe to send now, if one is due.
  std::optional<ProbeDepth> due_probe(Clock::time_point now);
  // Handles a probe's answer; ignores one of an earlier run. Adds to `history` when a sample is due.
  void take_answer(int run, ProbeAnswer answer, Clock::time_point now, History& history);

  const WorkerView& view() const { return view_; }
  const std::string& session_db() const { return session_db_; }
  int run() const { return run_; }
  const std::string& token() const { return view_.token; }  // of this run
  int output() const { return process_ ? process_->output() : -1; }
  bool gone() const { return view_.phase == WorkerPhase::exited; }
  bool draining() const { return drain_until_.has_value(); }
  // Adds to the log of events.
  void tell(std::string kind, std::string text = {}, std::vector<std::string> lines = {});
  // Replies to those who wait for the end, where it has come: when all can see it.
  void report_end();
  // Returns true once after each change of the view.
  bool take_change() { return std::exchange(changed_, false); }

 private:
  void set_phase(WorkerPhase phase);
  void take_exit(const ChildExit& exit, Clock::time_point now);
  void end_for_good();
  void begin_again(Clock::time_point now);
  void take_health(const ProbeAnswer& answer);
  void add_history(Clock::time_point now, const std::string& metrics, History& history);

  const SupervisorOptions& options_;
  EventLog& events_;
  WorkerView view_;
  const std::string session_db_;
  std::unique_ptr<WorkerProcess> process_;
  int run_ = 0;
  bool impostor_reported_ = false;
  int rounds_ = 0;  // of probes in this run
  int failed_probes_ = 0;
  int short_runs_ = 0;
  bool probing_ = false;
  bool stop_asked_ = false;
  bool restart_asked_ = false;
  bool changed_ = true;
  Clock::time_point next_probe_{}, next_history_{}, next_start_{};
  std::optional<Clock::time_point> drain_until_;
  // As they were at the last sample.
  Buckets first_token_;
  double generated_tokens_ = 0;
  Clock::time_point last_history_{};
  int sampled_run_ = 0;
  std::vector<Supervisor::StopReply> waiting_for_end_;
};

}  // namespace fulmar
