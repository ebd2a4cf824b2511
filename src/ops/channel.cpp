#include "ops/channel.h"

#include "base/check.h"
#include "ops/device.h"

namespace fulmar {

size_t message_bytes(std::span<const Tensor> tensors) {
  size_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    FULMAR_CHECK(tensor.contiguous());
    bytes += static_cast<size_t>(tensor.count()) * size_of(tensor.dtype);
  }
  return bytes;
}

int64_t Turnstile::wait_to_fill() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || filled_ - emptied_ < Channel::kMostUnderWay; });
  if (closed_) throw DeviceFailure(reason_);
  return filled_ % Channel::kMostUnderWay;
}

void Turnstile::filled() {
  {
    const std::lock_guard lock(mutex_);
    filled_++;
  }
  changed_.notify_all();
}

int64_t Turnstile::wait_to_empty() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || emptied_ < filled_; });
  if (closed_) throw DeviceFailure(reason_);
  return emptied_ % Channel::kMostUnderWay;
}

void Turnstile::emptied() {
  {
    const std::lock_guard lock(mutex_);
    emptied_++;
  }
  changed_.notify_all();
}

void Turnstile::close(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) reason_ = reason;
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace fulmar
