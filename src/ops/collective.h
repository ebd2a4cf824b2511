// Collective operations of the ranks that split every layer of a model among them (tensor parallelism): each
// holds some of the heads, of the feed-forward width and of the vocabulary, and what they make adds up.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace fulmar {

// One rank's end. All ranks of a group call the same operations with equal shapes in the same order, each on
// the thread that drives its device. Whoever waits for another rank longer than the group's time-out throws
// DeviceFailure, naming the ranks that did not come.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual int64_t rank() const = 0;  // 0 <= rank < size
  virtual int64_t size() const = 0;
  // Whether the calls only begin work of the device, which a backend may record and replay; where not, they
  // wait for the other ranks on the calling thread.
  virtual bool recordable() const = 0;

  // All-reduce into the residual stream: x += the sum over all ranks of `partial`. The sum has the same bits
  // on every rank. `partial` [rows, C] without gaps in the activation type or f32, x [rows, C] without gaps
  // in the residual type. Of a lone row of x, `partial` may be f32 [n, C], n parts of what the rank adds.
  virtual void add_sum(Tensor partial, Tensor x) = 0;
  // Registers the buffers of addends that add_sum and islands are given by turns, in the same order on every
  // rank, before its first step: other ranks may read an addend where it lies (pull) until the sum behind it
  // has begun, so what follows is to be written into another buffer. Addends elsewhere are never read so.
  virtual void register_addends(std::span<const Tensor> buffers) { (void)buffers; }
  // Gather: columns [first, first + n) of `whole` on rank 0 become `part` [rows, n], of every rank; f32,
  // without gaps. The others' `whole` is left as it is and may be empty.
  virtual void gather(Tensor part, int64_t first, Tensor whole) = 0;

  // Behind the calls of a step: waits until all ranks have begun theirs.
  virtual void meet() = 0;
  // Throws where another rank did not come to a call that the device is done with.
  virtual void check() = 0;
  // From any thread: from now on all calls throw DeviceFailure with this reason, also where they wait.
  virtual void close(const std::string& reason) = 0;
};

// What is still to be added to the residual stream: `own`, or its sum over `ranks`, where they share a layer
// and each has an addend. Empty: nothing.
struct Addend {
  Tensor own;  // [rows, C] in the activation type
  Collective* ranks = nullptr;

  Addend() = default;
  Addend(Tensor mine, Collective* group = nullptr)
      : own(mine), ranks(group) {}  // implicit: most have no ranks
  bool empty() const { return own.empty(); }
  // What this device has to add to x by itself: its own where nobody shares it; nothing where x has taken the
  // ranks' sum.
  Tensor joined(Tensor x) const {
    if (empty() || ranks == nullptr) return own;
    ranks->add_sum(own, x);
    return {};
  }
};

// What the ranks of a group prepare for.
struct CollectiveOptions {
  int64_t rows = 0;   // most of one call
  int64_t width = 0;  // C, of add_sum's rows
  std::chrono::milliseconds timeout{30'000};
  Tensor gathered;  // what gather fills, on rank 0, as far as its rows go; empty: nothing is gathered
};

}  // namespace fulmar
