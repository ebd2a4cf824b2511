// Point-to-point send and receive between two devices of one process: a pipeline stage passes its rows to the
// next.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace fulmar {

// Messages are received in the order in which they were sent. A message is a list of contiguous tensors,
// together at most as large as the channel was made for.
class Channel {
 public:
  static constexpr int64_t kMostUnderWay = 2;  // sent and not yet received; then send() waits

  virtual ~Channel() = default;

  // Sends the tensors, once the work enqueued so far has written them. Work enqueued later may overwrite
  // them. Call on the sending device's thread.
  virtual void send(std::span<const Tensor> tensors) = 0;
  // Receives into tensors of the same shapes and types; work enqueued later reads what was received. Call on
  // the receiving device's thread.
  virtual void receive(std::span<const Tensor> tensors) = 0;
  // Makes both ends throw DeviceFailure with this reason from now on, also where they wait. Call from any
  // thread.
  virtual void close(const std::string& reason) = 0;
};

// Returns the size of a message of these tensors, in bytes.
size_t message_bytes(std::span<const Tensor> tensors);

// Hands a channel's buffers from sender to receiver and back: a bounded queue of buffer indices, without
// their contents.
class Turnstile {
 public:
  // Waits for a free buffer and returns its index, below kMostUnderWay; throws DeviceFailure once closed.
  int64_t wait_to_fill();
  void filled();
  // Waits for a filled buffer and returns its index; throws DeviceFailure once closed.
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
