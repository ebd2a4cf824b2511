#include "ranks/rank.h"

#include <chrono>
#include <exception>
#include <future>

#include "ops/device.h"

namespace fulmar {

namespace {

// Longer than an engine takes between two steps.
constexpr std::chrono::microseconds kSpin{300};

}  // namespace

// Starts the rank's thread, which does not spin between steps if it computes itself.
Rank::Rank(Ops& ops, Drive drive) : ops_(ops) {
  if (drive != Drive::thread) return;
  const auto spin = ops.asynchronous() ? kSpin : std::chrono::microseconds::zero();
  thread_ = std::make_unique<JobThread>("rank " + ops.name(), 0, spin);
}

Rank::~Rank() {
  if (thread_) thread_->finish();
}

void Rank::post(std::function<void()> work) {
  if (!threaded()) return lead(work);
  thread_->post([this, work = std::move(work)] { attempt(work); });
}

void Rank::run(FunctionRef<void()> work) {
  if (!threaded()) return lead(work);
  post([&] { work(); });
  finish();
  if (const std::string reason = failure(); !reason.empty()) throw DeviceFailure(reason);
}

void Rank::finish() {
  if (!thread_) return;
  std::promise<void> done;
  thread_->post([&done] { done.set_value(); });
  done.get_future().wait();
}

std::string Rank::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Rank::lead(FunctionRef<void()> work) const {
  try {
    work();
  } catch (const std::exception& failure) {
    tell(failure.what());
    throw;
  }
}

void Rank::attempt(FunctionRef<void()> work) {
  if (!failure().empty()) return;
  try {
    work();
  } catch (const std::exception& failure) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = failure.what();
    }
    tell(failure.what());
  }
}

void Rank::tell(const std::string& reason) const {
  if (tell_) tell_(reason);
}

}  // namespace fulmar
