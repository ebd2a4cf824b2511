// The CPU backend: weights borrowed from the mapped file, quantised ones in an order of its own
// (interleaved.h); activations and state in f32.
#pragma once

#include <functional>
#include <memory>

#include "ops/ops.h"

namespace fulmar {

struct CpuOptions {
  int threads = 0;  // 0: one per core this process may use
  StateWrites state_writes;
  bool deterministic = false;  // as DeviceOptions has it
  // Of activations in front of quantised weights: 22, 15 or 8. Fewer are quicker; one rounding of that size
  // is what they cost. With AMX likewise in front of 16-bit weights of many rows (linear_amx.h).
  int activation_bits = 22;
};

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options = {});

// Is shown the inputs of every product before it is computed: f32 [rows, in], and the data of the matrix that
// its weight was imported from (HostMatrix::data).
using ProductObserver = std::function<void(const std::byte* matrix, Tensor in)>;

// The same with an observer.
std::unique_ptr<Ops> make_observed_cpu_ops(const CpuOptions& options, ProductObserver observer);

}  // namespace fulmar
