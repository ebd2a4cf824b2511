// The supervisor's one thread: waits for output, exits, commands and time, then attends to every worker.
#include "control/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "control/session_files.h"
#include "control/supervised_worker.h"
#include "net/http_client.h"

namespace fulmar {
namespace {

constexpr size_t kMostExited = 100;  // ended workers that stay in the list

}  // namespace

class Supervisor::Loop {
 public:
  using Clock = std::chrono::steady_clock;
  using Worker = SupervisedWorker;

  explicit Loop(SupervisorOptions options)
      : options_(std::move(options)),
        wake_up_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        history_(options_.state_dir.empty() ? std::string() : options_.state_dir + "/history.jsonl"),
        client_(std::make_unique<HttpClient>()),
        thread_("supervisor", [this] { run(); }) {}

  ~Loop() {
    stop_all();
    client_.reset();  // its callbacks post to us
    ::close(wake_up_);
  }

  // Enqueues a command; returns false, having done nothing, once stop_all() has begun.
  bool post(std::function<void()> command) {
    const bool taken = commands_.put(std::move(command));
    wake();
    return taken;
  }

  void start(WorkerSpec spec, const StartReply& reply) {
    auto started = start_worker(std::move(spec));
    publish();
    if (!started.ok()) return reply(started.error());
    reply(find_worker(*fleet(), *started));
  }

  void stop(const std::string& id, StopReply reply) {
    if (Worker* worker = find(id)) {
      worker->stop(Clock::now(), std::move(reply));
    } else {
      reply();
    }
  }

  void drain(const std::string& id, std::chrono::milliseconds most) {
    if (Worker* worker = find(id)) worker->drain(Clock::now() + most);
  }

  Status restart(const std::string& id, std::chrono::milliseconds most) {
    Worker* worker = find(id);
    if (worker == nullptr) return Error{ErrorKind::not_found, "worker not found"};
    const Worker* holder = worker->gone() ? holder_of(worker->view().spec.port) : nullptr;
    if (holder != nullptr) return taken_port(worker->view().spec.port, *holder);
    worker->restart(Clock::now(), Clock::now() + most);
    return {};
  }

  void restart_all(std::chrono::milliseconds most_each) {
    rolling_ = {.most_each = most_each};
    for (const auto& worker : workers_) {
      if (!worker->gone() && !worker->draining()) rolling_.due.push_back(worker->view().id);
    }
    events_.add(
        {.kind = "restarting", .text = fmt::format("{} workers, one after the other", rolling_.due.size())});
  }

  Status remove(const std::string& id) {
    Worker* worker = find(id);
    if (worker == nullptr) return Error{ErrorKind::not_found, "worker not found"};
    if (!worker->gone()) {
      return Error{ErrorKind::conflict, fmt::format("worker {} is {}, wanted one that has ended", id,
                                                    name_of(worker->view().phase))};
    }
    worker->tell("removed");
    std::erase_if(workers_, [&](const auto& one) { return one.get() == worker; });
    keep_known_figures();
    publish();
    return {};
  }

  void reconcile(const std::vector<WorkerSpec>& wanted) {
    const auto still_wanted = [&](const WorkerSpec& spec) {
      return std::any_of(wanted.begin(), wanted.end(), [&](WorkerSpec other) {
        if (other.port == 0) other.port = spec.port;
        return other == spec;
      });
    };
    std::vector<std::string> kept;
    for (const auto& worker : workers_) {
      const WorkerSpec& spec = worker->view().spec;
      if (!spec.configured || worker->gone() || worker->draining()) continue;
      if (still_wanted(spec)) {
        kept.push_back(spec.name);
      } else {
        worker->drain(Clock::now() + options_.grace);
      }
    }
    configured_ = wanted;
    due_.clear();
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(due_), [&](const WorkerSpec& spec) {
      return std::find(kept.begin(), kept.end(), spec.name) == kept.end();
    });
  }

  void stop_all() {
    if (!thread_.joinable()) return;
    post([this] {
      ending_ = true;
      for (const auto& worker : workers_) worker->stop(Clock::now(), {});
    });
    commands_.close();
    thread_.join();
  }

  FleetPtr fleet() const {
    std::lock_guard lock(mutex_);
    return fleet_;
  }

  const History& history() const { return history_; }
  const EventLog& events() const { return events_; }

 private:
  void run() {
    while (!finished()) {
      wait();
      for (auto& command : commands_.take_all()) command();
      const auto now = Clock::now();
      for (const auto& worker : workers_) {
        worker->attend(now);
        if (const auto depth = worker->due_probe(now)) probe(*worker, *depth);
      }
      start_due();
      roll();
      if (std::any_of(workers_.begin(), workers_.end(),
                      [](const auto& worker) { return worker->take_change(); })) {
        publish();
      }
      report_ends();
      forget_old();
    }
    for (auto& command : commands_.take_all()) command();
    for (const auto& worker : workers_) worker->stop(Clock::now(), {});  // whom such a command came for
    publish();
    report_ends();
  }

  // Goes on with a rolling restart when the worker before is ready again.
  void roll() {
    if (!rolling_.under_way.empty()) {
      const Worker* worker = find(rolling_.under_way);
      const bool lost = worker == nullptr || worker->gone();
      if (!lost && (worker->run() == rolling_.run_before || worker->view().phase != WorkerPhase::ready))
        return;
      if (lost && !rolling_.due.empty()) {
        events_.add({.kind = "failed",
                     .text = fmt::format("{} did not come back: {} workers were not restarted",
                                         rolling_.under_way, rolling_.due.size())});
        rolling_.due.clear();
      }
      rolling_.under_way.clear();
    }
    if (rolling_.due.empty()) return;
    const std::string id = rolling_.due.front();
    rolling_.due.pop_front();
    Worker* worker = find(id);
    if (worker == nullptr || worker->gone()) return;
    rolling_.under_way = id;
    rolling_.run_before = worker->run();
    worker->restart(Clock::now(), Clock::now() + rolling_.most_each);
  }

  static Error taken_port(int64_t port, const Worker& holder) {
    return Error{ErrorKind::conflict, fmt::format("port: {} is taken by worker {}", port, holder.view().id)};
  }

  void report_ends() {
    for (const auto& worker : workers_) worker->report_end();
  }

  bool finished() const {
    return ending_ &&
           std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->gone(); });
  }

  // Waits for an event, at most a tenth of a second: exits are polled for, too, since a worker's pipe may
  // outlive it.
  void wait() {
    std::vector<pollfd> files{{wake_up_, POLLIN, 0}};
    for (const auto& worker : workers_) {
      if (worker->output() >= 0) files.push_back({worker->output(), POLLIN, 0});
    }
    ::poll(files.data(), files.size(), 100);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_up_, &count, sizeof count);
  }

  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_up_, &one, sizeof one);
  }

  void probe(Worker& worker, ProbeDepth depth) {
    probe_worker(*client_, worker.view().spec, {.token = worker.token(), .password = options_.password},
                 depth, [this, id = worker.view().id, run = worker.run()](ProbeAnswer answer) {
                   post([this, id, run, answer = std::move(answer)]() mutable {
                     if (Worker* asked = find(id)) {
                       asked->take_answer(run, std::move(answer), Clock::now(), history_);
                     }
                   });
                 });
  }

  Result<std::string> start_worker(WorkerSpec spec) {
    if (ending_) return Error{ErrorKind::unavailable, "the control plane is stopping"};
    FULMAR_TRY(check_local(spec.host));
    if (spec.port == 0) {
      FULMAR_ASSIGN(spec.port, unused_port(spec.host));
    } else if (const Worker* holder = holder_of(spec.port)) {
      return taken_port(spec.port, *holder);
    }
    const auto namesake = std::find_if(workers_.begin(), workers_.end(), [&](const auto& worker) {
      return !worker->gone() && !worker->draining() && worker->view().spec.name == spec.name;
    });
    if (!spec.name.empty() && namesake != workers_.end()) {
      return Error{ErrorKind::conflict,
                   fmt::format("name: '{}' is taken by worker {}", spec.name, (*namesake)->view().id)};
    }
    FULMAR_ASSIGN(std::string session_db, session_db_for(spec));
    auto worker =
        std::make_unique<Worker>(options_, events_, fresh_id(), std::move(spec), std::move(session_db));
    FULMAR_TRY(worker->start(Clock::now()));
    workers_.push_back(std::move(worker));
    return workers_.back()->view().id;
  }

  Result<int64_t> unused_port(const std::string& host) {
    constexpr int kAttempts = 50;
    for (int i = 0; i < kAttempts; ++i) {
      FULMAR_ASSIGN(const int port, free_port(host));
      if (holder_of(port) == nullptr) return static_cast<int64_t>(port);
    }
    return Error{ErrorKind::resource, fmt::format("no free port found on host '{}'", host)};
  }

  const Worker* holder_of(int64_t port) const {
    for (const auto& worker : workers_) {
      if (!worker->gone() && worker->view().spec.port == port) return worker.get();
    }
    return nullptr;
  }

  // Starts what the configuration asks for; one whose port a leaving worker still holds waits for that.
  void start_due() {
    for (WorkerSpec& spec : std::exchange(due_, {})) {
      if (spec.port != 0 && holder_of(spec.port) != nullptr && holder_of(spec.port)->draining()) {
        due_.push_back(std::move(spec));
        continue;
      }
      const std::string name = spec.name;
      if (auto started = start_worker(std::move(spec)); !started.ok()) {
        spdlog::error("worker '{}' not started: {}", name, started.error().text);
      }
    }
  }

  std::string in_state_dir(const std::string& name) const {
    return (std::filesystem::path(options_.state_dir) / name).string();
  }

  // Returns the living worker whose sessions are in that file, or null.
  const Worker* user_of(const std::string& session_db) const {
    const auto found = std::find_if(workers_.begin(), workers_.end(), [&](const auto& worker) {
      return !worker->gone() && worker->session_db() == session_db;
    });
    return found == workers_.end() ? nullptr : found->get();
  }

  // Returns whether that file belongs to a living worker or, by name, to one of the configuration.
  bool is_someones(const std::string& session_db) const {
    return user_of(session_db) != nullptr ||
           std::any_of(configured_.begin(), configured_.end(), [&](const WorkerSpec& spec) {
             return in_state_dir(session_file_name(spec)) == session_db;
           });
  }

  // Returns a file that no other living worker uses, the same one again for the next worker like it. A file
  // of a name is never given to a worker of another name.
  Result<std::string> session_db_for(const WorkerSpec& spec) const {
    const std::string own = in_state_dir(session_file_name(spec));
    const std::string former = in_state_dir(former_session_file_name(spec));
    if (!is_someones(former) && take_over_sessions(former, own)) {
      spdlog::info("sessions of '{}' lie in '{}' from here on, not in '{}'", spec.name, own, former);
    }
    const Worker* user = user_of(own);
    if (user != nullptr && !spec.name.empty() && user->view().spec.name != spec.name) {
      return Error{ErrorKind::conflict,
                   fmt::format("name: '{}' has its sessions in '{}', which worker {} uses", spec.name, own,
                               user->view().id)};
    }
    for (int number = 1;; ++number) {
      std::string path = in_state_dir(session_file_name(spec, number));
      const bool of_a_name = spec.name.empty() && is_someones(path);
      if (!of_a_name && user_of(path) == nullptr) return path;
    }
  }

  std::string fresh_id() {
    for (;;) {
      std::string id = fmt::format("wkr-{:010x}", random_() & 0xff'ffff'ffffULL);
      if (find(id) == nullptr) return id;
    }
  }

  Worker* find(std::string_view id) {
    const auto found = std::find_if(workers_.begin(), workers_.end(),
                                    [&](const auto& worker) { return worker->view().id == id; });
    return found == workers_.end() ? nullptr : found->get();
  }

  void forget_old() {
    const auto gone =
        std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->gone(); });
    if (static_cast<size_t>(gone) <= kMostExited) return;
    workers_.erase(
        std::find_if(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->gone(); }));
    keep_known_figures();
    publish();
  }

  void keep_known_figures() {
    std::vector<std::string> series;
    for (const auto& worker : workers_) series.push_back(series_of(worker->view()));
    history_.keep_only(series);
  }

  void publish() {
    auto fleet = std::make_shared<Fleet>();
    for (const auto& worker : workers_) fleet->push_back(std::make_shared<WorkerView>(worker->view()));
    std::lock_guard lock(mutex_);
    fleet_ = std::move(fleet);
  }

  const SupervisorOptions options_;
  const int wake_up_;
  Mailbox<std::function<void()>> commands_;
  History history_;
  EventLog events_;
  mutable std::mutex mutex_;
  FleetPtr fleet_ = std::make_shared<const Fleet>();
  std::unique_ptr<HttpClient> client_;

  // The thread's own.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<WorkerSpec> configured_;
  std::vector<WorkerSpec> due_;  // of these, not started yet
  struct Rolling {
    std::deque<std::string> due{};  // ids
    std::string under_way{};
    int run_before = 0;  // of that one
    std::chrono::milliseconds most_each{0};
  } rolling_;
  bool ending_ = false;
  std::mt19937_64 random_{std::random_device{}()};

  Thread thread_;  // last: it uses everything above
};

Supervisor::Supervisor(SupervisorOptions options) : loop_(std::make_unique<Loop>(std::move(options))) {}
Supervisor::~Supervisor() = default;

void Supervisor::start(WorkerSpec spec, StartReply reply) {
  const bool posted =
      loop_->post([this, spec = std::move(spec), reply]() mutable { loop_->start(std::move(spec), reply); });
  if (!posted) reply(Error{ErrorKind::unavailable, "the control plane is stopping"});
}

Status Supervisor::stop(std::string_view id, StopReply reply) {
  if (!find_worker(*fleet(), id)) return Error{ErrorKind::not_found, "worker not found"};
  const bool posted =
      loop_->post([this, id = std::string(id), reply]() mutable { loop_->stop(id, std::move(reply)); });
  if (!posted) reply();
  return {};
}

Status Supervisor::drain(std::string_view id, std::chrono::milliseconds most) {
  if (!find_worker(*fleet(), id)) return Error{ErrorKind::not_found, "worker not found"};
  loop_->post([this, id = std::string(id), most] { loop_->drain(id, most); });
  return {};
}

void Supervisor::restart(std::string id, std::chrono::milliseconds most, DoneReply reply) {
  const bool posted =
      loop_->post([this, id = std::move(id), most, reply] { reply(loop_->restart(id, most)); });
  if (!posted) reply(Error{ErrorKind::unavailable, "the control plane is stopping"});
}

void Supervisor::restart_all(std::chrono::milliseconds most_each) {
  loop_->post([this, most_each] { loop_->restart_all(most_each); });
}

void Supervisor::remove(std::string id, DoneReply reply) {
  const bool posted = loop_->post([this, id = std::move(id), reply] { reply(loop_->remove(id)); });
  if (!posted) reply(Error{ErrorKind::unavailable, "the control plane is stopping"});
}

void Supervisor::reconcile(std::vector<WorkerSpec> wanted) {
  loop_->post([this, wanted = std::move(wanted)] { loop_->reconcile(wanted); });
}

void Supervisor::stop_all() { loop_->stop_all(); }
FleetPtr Supervisor::fleet() const { return loop_->fleet(); }
const History& Supervisor::history() const { return loop_->history(); }
const EventLog& Supervisor::events() const { return loop_->events(); }

}  // namespace fulmar
