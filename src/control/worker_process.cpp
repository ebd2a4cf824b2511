// Effects on one child process.
#include "control/worker_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

namespace fulmar {

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const ChildProgram& program,
                                                            std::shared_ptr<LogRing> log) {
  FULMAR_ASSIGN(const Child child, spawn_child(program));
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(child, std::move(log)));
}

WorkerProcess::WorkerProcess(Child child, std::shared_ptr<LogRing> log)
    : child_(child), log_(std::move(log)) {}

WorkerProcess::~WorkerProcess() {
  if (!exit_) {
    ::kill(child_.pid, SIGKILL);
    ::waitpid(child_.pid, nullptr, 0);
  }
  close_output();
}

std::chrono::milliseconds WorkerProcess::lasted(Clock::time_point now) const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - started_);
}

void WorkerProcess::pump() {
  constexpr int kMostReads = 64;  // a worker that prints without end must not hold up the others
  std::array<char, 16384> bytes;
  for (int i = 0; i < kMostReads && child_.output >= 0; ++i) {
    const ssize_t got = ::read(child_.output, bytes.data(), bytes.size());
    if (got > 0) {
      log_->append(std::string_view(bytes.data(), static_cast<size_t>(got)));
    } else if (got == 0) {
      close_output();
    } else if (errno != EINTR) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) close_output();
      return;
    }
  }
}

void WorkerProcess::terminate(Clock::time_point kill_at) {
  if (exit_) return;
  if (!kill_at_) ::kill(child_.pid, SIGTERM);
  kill_at_ = kill_at_ ? std::min(*kill_at_, kill_at) : kill_at;
}

void WorkerProcess::enforce(Clock::time_point now) {
  if (!exit_ && kill_at_ && now >= *kill_at_) ::kill(child_.pid, SIGKILL);
}

std::optional<ChildExit> WorkerProcess::take_exit() {
  if (!exit_) exit_ = reap_child(child_.pid);
  if (exit_) {
    pump();
    log_->close_line();
  }
  return exit_;
}

void WorkerProcess::close_output() {
  if (child_.output >= 0) ::close(child_.output);
  child_.output = -1;
}

}  // namespace fulmar
