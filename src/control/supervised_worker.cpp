// The life of one worker.
#include "control/supervised_worker.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/exit_codes.h"
#include "base/log.h"
#include "base/read_file.h"
#include "base/unix_time.h"
#include "net/worker_proof.h"

namespace fulmar {
namespace {

constexpr int kFailuresUntilUnresponsive = 5;
constexpr int kRoundsBetweenModels = 5;
constexpr int64_t kCrashLines = 50;
constexpr int64_t kEventLines = 20;

// Returns the resident bytes of a process, or 0.
uint64_t resident_bytes(pid_t pid) {
  constexpr size_t kMostBytes = 4096;
  std::istringstream numbers(read_if_there("/proc/" + std::to_string(pid) + "/statm", kMostBytes));
  uint64_t total = 0, resident = 0;
  numbers >> total >> resident;
  return numbers ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

// Returns the worker's own grace period: a second less than ours, which is left for its last output.
int64_t worker_grace_seconds(std::chrono::milliseconds grace) {
  return std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(grace).count() - 1);
}

// Makes the folder of states beside the files of sessions and returns it; empty where it cannot be made,
// which is logged: states then stay on the worker that was sent them, until it ends.
std::string shared_states(const std::string& session_db) {
  const std::filesystem::path folder = std::filesystem::path(session_db).parent_path() / "states";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return folder.string();
  spdlog::error("no folder for the workers' states '{}': {}", folder.string(), error.message());
  return {};
}

ChildProgram program_of(const SupervisorOptions& options, const WorkerSpec& spec,
                        const std::string& session_db, const std::string& token) {
  ChildProgram program{.program = options.program,
                       .arguments = serve_arguments(spec, {session_db, shared_states(session_db)},
                                                    worker_grace_seconds(options.grace))};
  if (spec.gpu_id) {
    program.environment.emplace_back("CUDA_VISIBLE_DEVICES", std::to_string(*spec.gpu_id));
    program.environment.emplace_back("CUDA_DEVICE_ORDER", "PCI_BUS_ID");  // the order of our GPU list
  }
  if (!options.password.empty()) program.environment.emplace_back("FULMAR_PASSWORD", options.password);
  program.environment.emplace_back(kWorkerTokenVariable, token);
  return program;
}

}  // namespace

SupervisedWorker::SupervisedWorker(const SupervisorOptions& options, EventLog& events, std::string id,
                                   WorkerSpec spec, std::string session_db)
    : options_(options), events_(events), session_db_(std::move(session_db)) {
  view_.id = std::move(id);
  view_.spec = std::move(spec);
  view_.created_at = unix_time();
  view_.log = std::make_shared<LogRing>();
  view_.in_flight = std::make_shared<std::atomic<int64_t>>(0);
}

Status SupervisedWorker::start(Clock::time_point now) {
  view_.token = random_hex();
  view_.proven = impostor_reported_ = false;
  std::error_code unknown;
  if (std::filesystem::exists(session_db_, unknown) || unknown) view_.may_have_sessions = true;
  auto started = WorkerProcess::start(program_of(options_, view_.spec, session_db_, view_.token), view_.log);
  view_.next_start_at.reset();
  if (!started.ok()) {
    view_.exit = ChildExit{.code = 127};
    view_.exited_at = unix_time();
    view_.log->append("fulmar control: " + started.error().text + "\n");
    tell("failed", started.error().text);
    end_for_good();
    return started.error();
  }
  process_ = std::move(*started);
  ++run_;
  rounds_ = failed_probes_ = 0;
  probing_ = false;
  next_probe_ = now + options_.start_probe_every;
  next_history_ = now;
  view_.pid = process_->pid();
  view_.exit.reset();
  view_.exited_at.reset();
  view_.started_at = unix_time();
  set_phase(WorkerPhase::starting);
  tell("started");
  spdlog::info("worker started id={} pid={} endpoint={} model={}", view_.id, view_.pid,
               endpoint_of(view_.spec), view_.spec.model_path);
  return {};
}

void SupervisedWorker::stop(Clock::time_point now, Supervisor::StopReply reply) {
  stop_asked_ = true;
  if (reply) waiting_for_end_.push_back(std::move(reply));
  if (!process_) return end_for_good();
  process_->terminate(now + options_.grace);
  set_phase(WorkerPhase::stopping);
}

void SupervisedWorker::drain(Clock::time_point until) {
  drain_until_ = until;
  if (view_.answers()) set_phase(WorkerPhase::draining);
  tell("draining");
}

void SupervisedWorker::restart(Clock::time_point now, Clock::time_point until) {
  tell("restarting");
  if (!process_) return begin_again(now);
  if (stop_asked_ || restart_asked_) return;
  restart_asked_ = true;
  drain_until_ = until;
  if (view_.answers()) set_phase(WorkerPhase::draining);
}

// Schedules a new run, which the next attend() starts.
void SupervisedWorker::begin_again(Clock::time_point now) {
  stop_asked_ = restart_asked_ = false;
  drain_until_.reset();
  short_runs_ = 0;
  next_start_ = now;
  view_.next_start_at = unix_time();
  set_phase(WorkerPhase::waiting);
}

void SupervisedWorker::attend(Clock::time_point now) {
  if (process_) {
    process_->pump();
    process_->enforce(now);
    if (const auto exit = process_->take_exit()) take_exit(*exit, now);
  }
  if (view_.phase == WorkerPhase::waiting && now >= next_start_) {
    ++view_.restarts;
    if (const Status status = start(now); !status.ok()) {
      spdlog::error("worker not restarted id={}: {}", view_.id, status.error().text);
    }
  }
  if (drain_until_ && !stop_asked_ && !gone() && view_.phase != WorkerPhase::stopping) {
    const bool begun = view_.phase != WorkerPhase::starting || restart_asked_;
    const bool idle = begun && view_.in_flight->load() == 0 && view_.queue.waiting + view_.queue.running == 0;
    if (!idle && now < *drain_until_) return;
    if (!restart_asked_) return stop(now, {});
    process_->terminate(now + options_.grace);
    set_phase(WorkerPhase::stopping);
  }
}

std::optional<ProbeDepth> SupervisedWorker::due_probe(Clock::time_point now) {
  if (!process_ || probing_ || view_.phase == WorkerPhase::stopping || now < next_probe_) return std::nullopt;
  probing_ = true;
  if (view_.phase == WorkerPhase::starting || view_.phase == WorkerPhase::unresponsive) {
    return ProbeDepth::health;
  }
  return rounds_++ % kRoundsBetweenModels == 0 ? ProbeDepth::figures_and_models : ProbeDepth::figures;
}

void SupervisedWorker::take_answer(int run, ProbeAnswer answer, Clock::time_point now, History& history) {
  if (run != run_ || !process_) return;
  probing_ = false;
  changed_ = true;
  const bool was_ready = view_.answers();
  take_health(answer);
  next_probe_ = now + (view_.phase == WorkerPhase::starting ? options_.start_probe_every
                       : was_ready                          ? options_.probe_every
                                                            : std::chrono::milliseconds(0));
  if (answer.queue) view_.queue = *answer.queue;
  if (answer.models_json) {
    view_.models = model_ids(*answer.models_json);
    view_.models_json = std::move(*answer.models_json);
  }
  if (!answer.metrics) return;
  view_.tokens_per_second = metric_value(*answer.metrics, "fulmar_decode_tokens_per_second").value_or(0);
  view_.memory_bytes = resident_bytes(view_.pid);
  view_.metrics = std::make_shared<const std::string>(std::move(*answer.metrics));
  if (now >= next_history_) add_history(now, *view_.metrics, history);
}

void SupervisedWorker::take_health(const ProbeAnswer& answer) {
  const bool healthy = answer.healthy;
  view_.proven = view_.proven || healthy;
  if (answer.impostor && !std::exchange(impostor_reported_, true)) {
    spdlog::error("what answers on {} is not worker {}: it is told nothing", endpoint_of(view_.spec),
                  view_.id);
  }
  if (view_.phase == WorkerPhase::stopping) return;
  failed_probes_ = healthy ? 0 : failed_probes_ + 1;
  if (healthy && !view_.answers()) {
    spdlog::info("worker ready id={}", view_.id);
    tell("ready");
    set_phase(drain_until_ ? WorkerPhase::draining : WorkerPhase::ready);
  } else if (view_.answers() && failed_probes_ >= kFailuresUntilUnresponsive) {
    spdlog::warn("worker does not answer id={}", view_.id);
    tell("unresponsive");
    set_phase(WorkerPhase::unresponsive);
  }
}

void SupervisedWorker::add_history(Clock::time_point now, const std::string& metrics, History& history) {
  next_history_ = now + options_.history_every;
  // The mean since the last sample: a figure of the last second alone would miss what came in between.
  const double tokens = metric_value(metrics, "fulmar_generated_tokens_total").value_or(0);
  const double elapsed = std::chrono::duration<double>(now - last_history_).count();
  const bool continues = sampled_run_ == run_ && tokens >= generated_tokens_ && elapsed > 0;
  const double rate = continues ? (tokens - generated_tokens_) / elapsed : 0;
  generated_tokens_ = tokens;
  last_history_ = now;
  sampled_run_ = run_;
  Buckets buckets = read_buckets(metrics, "fulmar_ttft_seconds");
  history.add(series_of(view_), {.time = unix_time(),
                                 .tokens_per_second = rate,
                                 .ttft_p50 = quantile_between(first_token_, buckets, 0.5),
                                 .ttft_p95 = quantile_between(first_token_, buckets, 0.95),
                                 .rows_waiting = view_.queue.waiting,
                                 .rows_running = view_.queue.running,
                                 .memory_bytes = view_.memory_bytes});
  first_token_ = std::move(buckets);
}

void SupervisedWorker::take_exit(const ChildExit& exit, Clock::time_point now) {
  const bool asked_for = stop_asked_ || restart_asked_;
  const EndedRun ended{.asked_for = asked_for,
                       .failed = exit.signal != 0 || exit.code != 0,
                       .device_failed = exit.signal == 0 && exit.code == kDeviceErrorExit,
                       .lasted = process_->lasted(now),
                       .short_runs_before = short_runs_};
  process_.reset();
  view_.proven = false;
  view_.exit = exit;
  view_.exited_at = unix_time();
  view_.queue = {};
  view_.tokens_per_second = 0;
  view_.memory_bytes = 0;
  view_.metrics.reset();
  if (!asked_for) {
    view_.crash = exit;
    view_.crash_lines = view_.log->tail(kCrashLines);
  }
  tell(asked_for ? "stopped" : "crashed", describe(exit),
       asked_for ? std::vector<std::string>{} : view_.log->tail(kEventLines));
  const RestartDecision decision =
      drain_until_ ? RestartDecision{} : decide_restart(view_.spec.restart, options_.back_off, ended);
  spdlog::log(asked_for ? spdlog::level::info : spdlog::level::warn, "worker ended id={} pid={}: {}",
              view_.id, view_.pid, describe(exit));
  if (restart_asked_ && !stop_asked_) return begin_again(now);
  if (!decision.restart) return end_for_good();
  short_runs_ = decision.short_runs;
  next_start_ = now + decision.delay;
  view_.next_start_at = unix_time() + std::chrono::duration<double>(decision.delay).count();
  set_phase(WorkerPhase::waiting);
}

void SupervisedWorker::end_for_good() {
  view_.next_start_at.reset();
  set_phase(WorkerPhase::exited);
}

void SupervisedWorker::tell(std::string kind, std::string text, std::vector<std::string> lines) {
  events_.add({.worker = view_.id,
               .name = view_.spec.name,
               .kind = std::move(kind),
               .text = std::move(text),
               .lines = std::move(lines)});
}

void SupervisedWorker::report_end() {
  if (!gone()) return;
  for (const auto& reply : std::exchange(waiting_for_end_, {})) reply();
}

void SupervisedWorker::set_phase(WorkerPhase phase) {
  view_.phase = phase;
  if (phase == WorkerPhase::ready) view_.may_have_sessions = true;
  changed_ = true;
}

}  // namespace fulmar
