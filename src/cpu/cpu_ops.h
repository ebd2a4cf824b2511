// The CPU backend: weights borrowed from the mapped file, activations and state in f32.
#pragma once

#include <functional>
#include <memory>

#include "ops/ops.h"

namespace fulmar {

struct CpuOptions {
  int threads = 0;  // 0: one per core this process may use
  StateWrites state_writes;
  bool deterministic = false;  // as DeviceOptions has it
  // Of one to three rows that meet quantised weights: rounded to 16 bits in place of 22, which is quicker and
  // moves products by 3e-5 of their root mean square.
  bool short_activations = false;
};

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options = {});

// Is shown the inputs of every product before it is computed: f32 [rows, in], and the data of the matrix that
// its weight was imported from (HostMatrix::data).
using ProductObserver = std::function<void(const std::byte* matrix, Tensor in)>;

// The same with an observer.
std::unique_ptr<Ops> make_observed_cpu_ops(const CpuOptions& options, ProductObserver observer);

}  // namespace fulmar
