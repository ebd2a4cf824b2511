// Collectives among the ranks that split every layer of a model (tensor parallelism): each has some of the
// heads, of the feed-forward width and of the vocabulary, and their outputs are added up.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace fulmar {

// One rank's end. All ranks of a group call the same operations with equal shapes in the same order, each on
// the thread that drives its device. A rank that waits for another longer than the group's time-out throws
// DeviceFailure, naming the ranks that are missing.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual int64_t rank() const = 0;  // 0 <= rank < size
  virtual int64_t size() const = 0;
  // Returns whether calls only enqueue work on the device, so that a backend may capture and replay them. If
  // not, they wait for the other ranks on the calling thread.
  virtual bool recordable() const = 0;

  // Computes an all-reduce into the residual stream: x += the sum over all ranks of `partial`, the same bits
  // on every rank. `partial` [rows, C], contiguous, in the activation type or f32; x [rows, C], contiguous,
  // in the residual type. At batch 1 `partial` may be f32 [n, C]: n partial sums of the rank's addend.
  virtual void add_sum(Tensor partial, Tensor x) = 0;
  // Registers the buffers that addends alternate between, in the same order on every rank, before its first
  // step. Other ranks may read an addend in place (pull) until the next sum has begun, so the next addend has
  // to go to another buffer. Unregistered addends are never read in place.
  virtual void register_addends(std::span<const Tensor> buffers) { (void)buffers; }
  // Gathers into rank 0: `part` [rows, n] of every rank becomes columns [first, first + n) of rank 0's
  // `whole`; f32, contiguous. Other ranks' `whole` is untouched and may be empty.
  virtual void gather(Tensor part, int64_t first, Tensor whole) = 0;

  // Waits until all ranks have begun their calls of a step. Call after those of each step.
  virtual void meet() = 0;
  // Throws DeviceFailure where a call that the device has finished timed out waiting for another rank.
  virtual void check() = 0;
  // Makes all calls throw DeviceFailure with this reason from now on, also where they wait. Call from any
  // thread.
  virtual void close(const std::string& reason) = 0;
};

// What is still to be added to the residual stream: `own` or, where `ranks` share the layer, its all-reduce.
// Empty: nothing.
struct Addend {
  Tensor own;  // [rows, C] in the activation type
  Collective* ranks = nullptr;

  Addend() = default;
  // Converts a tensor implicitly: most addends have no ranks.
  Addend(Tensor mine, Collective* group = nullptr) : own(mine), ranks(group) {}
  bool empty() const { return own.empty(); }
  // Returns the addend that is left for this device to add to x: `own` without ranks; with ranks nothing,
  // since the all-reduce has added to x.
  Tensor joined(Tensor x) const {
    if (empty() || ranks == nullptr) return own;
    ranks->add_sum(own, x);
    return {};
  }
};

// The largest calls that the ranks of a group allocate for.
struct CollectiveOptions {
  int64_t rows = 0;   // most of one call
  int64_t width = 0;  // C, columns of add_sum's rows
  std::chrono::milliseconds timeout{30'000};
  Tensor gathered;  // destination of gather on rank 0; empty: nothing is gathered
};

}  // namespace fulmar
