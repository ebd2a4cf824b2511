// The supervisor's one thread: waits for output, exits, commands and time, then attends to every worker.
#include "control/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mailbox.h"
#include "control/supervised_worker.h"
#include "net/http_client.h"

namespace fulmar {
namespace {

constexpr size_t kMostExited = 100;  // ended workers that stay in the list

// A file name from whatever a name contains.
std::string tidy_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char byte) { return !std::isalnum(byte) && byte != '-' && byte != '_' && byte != '.'; },
      '_');
  return text.empty() ? "worker" : text;
}

}  // namespace

class Supervisor::Loop {
 public:
  using Clock = std::chrono::steady_clock;
  using Worker = SupervisedWorker;

  explicit Loop(SupervisorOptions options)
      : options_(std::move(options)),
        wake_up_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        client_(std::make_unique<HttpClient>()),
        thread_([this] { run(); }) {}

  ~Loop() {
    stop_all();
    client_.reset();  // its callbacks post to us
    ::close(wake_up_);
  }

  // False, and nothing happens, once stop_all() has begun.
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
      if (spec.name.empty() || worker->gone() || worker->draining()) continue;
      if (still_wanted(spec)) {
        kept.push_back(spec.name);
      } else {
        worker->drain(Clock::now() + options_.grace);
      }
    }
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

  void report_ends() {
    for (const auto& worker : workers_) worker->report_end();
  }

  bool finished() const {
    return ending_ &&
           std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->gone(); });
  }

  // Until something happens, at most a tenth of a second: exits are looked for by time, too, since a
  // worker's pipe may outlive it.
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
      return Error{ErrorKind::conflict,
                   fmt::format("port: {} is taken by worker {}", spec.port, holder->view().id)};
    }
    std::string session_db = session_db_for(spec);
    auto worker = std::make_unique<Worker>(options_, fresh_id(), std::move(spec), std::move(session_db));
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

  // A file of its own for each living worker, and the same one again for the next worker like it.
  std::string session_db_for(const WorkerSpec& spec) const {
    namespace fs = std::filesystem;
    std::string stem = spec.name.empty() ? fs::path(spec.model_path).stem().string() : spec.name;
    if (spec.name.empty() && spec.gpu_id) stem += fmt::format("-gpu{}", *spec.gpu_id);
    const fs::path base = fs::path(options_.state_dir) / ("sessions-" + tidy_name(stem));
    for (int i = 1;; ++i) {
      const std::string path = base.string() + (i == 1 ? "" : fmt::format("-{}", i)) + ".db";
      const bool taken = std::any_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
        return !worker->gone() && worker->session_db() == path;
      });
      if (!taken) return path;
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
    std::vector<std::string> ids;
    for (const auto& worker : workers_) ids.push_back(worker->view().id);
    history_.keep_only(ids);
    publish();
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
  mutable std::mutex mutex_;
  FleetPtr fleet_ = std::make_shared<const Fleet>();
  std::unique_ptr<HttpClient> client_;

  // The thread's own.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<WorkerSpec> due_;  // of the configuration, not started yet
  bool ending_ = false;
  std::mt19937_64 random_{std::random_device{}()};

  std::thread thread_;  // last: it uses everything above
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

void Supervisor::reconcile(std::vector<WorkerSpec> wanted) {
  loop_->post([this, wanted = std::move(wanted)] { loop_->reconcile(wanted); });
}

void Supervisor::stop_all() { loop_->stop_all(); }
FleetPtr Supervisor::fleet() const { return loop_->fleet(); }
const History& Supervisor::history() const { return loop_->history(); }

}  // namespace fulmar
