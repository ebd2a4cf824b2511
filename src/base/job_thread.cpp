// The loop of a thread of jobs.
#include "base/job_thread.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace fulmar {

JobThread::JobThread(std::string name, size_t most_waiting, std::chrono::microseconds spin)
    : name_(std::move(name)), spin_(spin), jobs_(most_waiting), thread_(name_, [this] { work(); }) {}

JobThread::~JobThread() { finish(); }

bool JobThread::post(std::function<void()> job) { return jobs_.put(std::move(job)); }

void JobThread::finish() {
  jobs_.close();
  if (thread_.joinable()) thread_.join();
}

void JobThread::spin() const {
  if (spin_.count() == 0) return;
  const auto until = std::chrono::steady_clock::now() + spin_;
  while (jobs_.size() == 0 && !jobs_.closed() && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
}

void JobThread::work() {
  while (true) {
    spin();
    std::vector<std::function<void()>> jobs = jobs_.wait_all(std::chrono::hours(1));
    if (jobs.empty() && jobs_.closed()) return;
    for (std::function<void()>& job : jobs) {
      try {
        std::exchange(job, {})();
      } catch (const std::exception& failure) {
        spdlog::error("job failed thread={} reason=\"{}\"", name_, failure.what());
      } catch (...) {  // the jobs after it must still run
        spdlog::error("job failed thread={} reason=\"unknown\"", name_);
      }
    }
  }
}

}  // namespace fulmar
