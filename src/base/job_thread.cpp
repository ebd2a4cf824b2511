// The loop of a thread of jobs.
#include "base/job_thread.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/log.h"

namespace fulmar {

JobThread::JobThread(std::string name, size_t most_waiting)
    : name_(std::move(name)), jobs_(most_waiting), thread_([this] { work(); }) {}

JobThread::~JobThread() { finish(); }

bool JobThread::post(std::function<void()> job) { return jobs_.put(std::move(job)); }

void JobThread::finish() {
  jobs_.close();
  if (thread_.joinable()) thread_.join();
}

void JobThread::work() {
  while (true) {
    std::vector<std::function<void()>> jobs = jobs_.wait_all(std::chrono::hours(1));
    if (jobs.empty() && jobs_.closed()) return;
    for (std::function<void()>& job : jobs) {
      try {
        std::exchange(job, {})();
      } catch (const std::exception& failure) {
        spdlog::error("job failed thread={} reason=\"{}\"", name_, failure.what());
      }
    }
  }
}

}  // namespace fulmar
