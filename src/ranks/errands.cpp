#include "ranks/errands.h"

#include <algorithm>
#include <utility>

#include "ops/device.h"

namespace fulmar {

void Errands::append(Work work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
}

void Errands::ask(Work work) { append(std::move(work)); }

void Errands::step_over() { append({}); }

void Errands::follow(size_t follower) {
  int64_t& done = done_[follower - 1];
  std::unique_lock lock(mutex_);
  for (bool over = false; !over;) {
    changed_.wait(lock, [&] { return closed_ || done < forgotten_ + static_cast<int64_t>(work_.size()); });
    if (closed_) throw DeviceFailure(reason_);
    const Work work = work_[static_cast<size_t>(done - forgotten_)];
    over = !work;
    lock.unlock();
    if (work) work(follower);
    lock.lock();
    done++;
    for (; forgotten_ < *std::min_element(done_.begin(), done_.end()); forgotten_++) work_.pop_front();
  }
}

void Errands::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!closed_) reason_ = reason;
  closed_ = true;
  changed_.notify_all();
}

}  // namespace fulmar
