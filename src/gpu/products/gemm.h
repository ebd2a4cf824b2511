// Products for many rows, by the vendor's GEMM library. It is loaded when the first GPU is opened, so that
// the program starts where it is missing; or not at all, and linear_plain computes them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "base/result.h"
#include "gpu/device/device.h"
#include "gpu/device/memory.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

struct GemmLibrary;

class Gemm {
 public:
  // Fails when the library cannot be loaded, naming the files that were tried; with `plain` it is not loaded.
  static Result<std::unique_ptr<Gemm>> open(bool plain);
  ~Gemm();

  // out = in @ weight^T. The first product of a shape asks the library for an algorithm; with `timed` (and
  // not while a graph is captured) its candidates are run and the quickest is kept. in and weight have the
  // activation type, out that or f32. Accumulates in f32, partial sums included.
  void run(const Queue& queue, Tensor in, const Weight& weight, Tensor out, bool timed);

 private:
  Gemm();
  struct Chosen;
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool, uint8_t>;

  Chosen& choose(const Queue& queue, const Key& key, Tensor in, const Weight& weight, Tensor out, bool timed);

  std::unique_ptr<GemmLibrary> library_;  // null: plain products
  Buffer workspace_[kQueues];             // products of different queues run at the same time
  std::map<Key, std::unique_ptr<Chosen>> chosen_;
};

}  // namespace fulmar::gpu
