// The threads of a pool.
#include "base/work_pool.h"

#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace fulmar {

WorkPool::WorkPool(std::string name, size_t threads, size_t most_waiting, size_t most_of_share)
    : name_(std::move(name)), queue_(most_waiting, most_of_share, threads - 1), running_(threads) {
  FULMAR_CHECK(threads >= 2);
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back(name_, [this, i] { work(i); });
  }
}

WorkPool::~WorkPool() { finish(); }

bool WorkPool::post(ClientJob job) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    if (stopped_) job.meter->stop();
    if (!queue_.add(std::move(job))) return false;
  }
  arrived_.notify_one();
  return true;
}

void WorkPool::stop_work() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  queue_.stop_waiting();
  for (const std::shared_ptr<Meter>& meter : running_) {
    if (meter) meter->stop();
  }
}

void WorkPool::finish() {
  stop_work();
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  arrived_.notify_all();
  for (Thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkPool::work(size_t index) {
  std::unique_lock lock(mutex_);
  while (true) {
    std::optional<ClientJob> job = queue_.take();
    if (!job && closed_ && queue_.empty()) return;
    if (!job) {
      arrived_.wait(lock);
      continue;
    }
    running_[index] = job->meter;
    lock.unlock();
    run(*job, index);
    lock.lock();
    running_[index] = nullptr;
    queue_.done(job->share, job->weight);
    arrived_.notify_all();
  }
}

void WorkPool::run(ClientJob& job, size_t index) {
  try {
    const Meter::Scope scope(*job.meter);
    std::exchange(job.run, {})();  // what it holds goes with it
  } catch (const WorkEnded&) {
    spdlog::debug("job ended early pool={} thread={}", name_, index);
  } catch (const std::exception& failure) {
    spdlog::error("job failed pool={} thread={} reason=\"{}\"", name_, index, failure.what());
  }
}

}  // namespace fulmar
