// Point-to-point send and receive between two devices of one process: how one pipeline stage hands its rows
// to the next.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace fulmar {

// Messages are received in the order in which they were sent. A message is some tensors without gaps between
// their rows, at most as many bytes together as the channel was made for.
class Channel {
 public:
  static constexpr int64_t kMostUnderWay = 2;  // sent and not received: a sender waits before the next

  virtual ~Channel() = default;

  // On the thread of the sending device: takes the tensors as the work begun so far leaves them. Work begun
  // behind this may write to them.
  virtual void send(std::span<const Tensor> tensors) = 0;
  // On the thread of the receiving device: fills tensors of the same shapes and types, in front of the work
  // begun behind this.
  virtual void receive(std::span<const Tensor> tensors) = 0;
  // From any thread: from now on both ends throw DeviceFailure with this reason, also where they wait.
  virtual void close(const std::string& reason) = 0;
};

// Bytes that the numbers of a message's tensors take.
size_t message_bytes(std::span<const Tensor> tensors);

// A channel's buffers change hands here: who may touch them, without what is in them.
class Turnstile {
 public:
  // Waits for a buffer that may be filled, or for one that may be emptied; its index, below kMostUnderWay.
  // Throws DeviceFailure once closed.
  int64_t wait_to_fill();
  void filled();
  int64_t wait_to_empty();
  void emptied();
  void close(const std::string& reason);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t filled_ = 0, emptied_ = 0;
  bool closed_ = false;
  std::string reason_;
};

}  // namespace fulmar
