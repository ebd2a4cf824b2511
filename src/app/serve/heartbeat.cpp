// The thread that renews the record.
#include "app/serve/heartbeat.h"

#include <chrono>
#include <utility>

#include "base/log.h"

namespace fulmar {
namespace {

constexpr std::chrono::milliseconds kBeat{2'000};
constexpr std::chrono::milliseconds kTimeToLive{7'000};  // three beats may be lost

}  // namespace

Heartbeat::Heartbeat(std::unique_ptr<WorkerDirectory> directory, WorkerRecord worker)
    : directory_(std::move(directory)), worker_(std::move(worker)), thread_("heartbeat", [this] { run(); }) {}

Heartbeat::~Heartbeat() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Heartbeat::drain() {
  {
    std::lock_guard lock(mutex_);
    worker_.draining = true;
    told_ = false;
  }
  changed_.notify_all();
}

void Heartbeat::run() {
  bool failing = false;
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const WorkerRecord worker = worker_;
    told_ = true;
    lock.unlock();
    const Status told = directory_->announce(worker, kTimeToLive);
    if (!told.ok() && !failing) spdlog::warn("heartbeat: {}", told.error().text);
    failing = !told.ok();
    lock.lock();
    changed_.wait_for(lock, kBeat, [this] { return ending_ || !told_; });
  }
  const std::string name = worker_.name;
  lock.unlock();
  if (const Status gone = directory_->withdraw(name); !gone.ok()) {
    spdlog::warn("heartbeat: {}", gone.error().text);
  }
}

}  // namespace fulmar
