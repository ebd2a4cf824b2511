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
  // Bits of activations that quantised weights multiply: 22, 15 or 8. Fewer are quicker and cost one rounding
  // of that size. With AMX also of those that 16-bit weights multiply in many rows (linear_amx.h).
  int activation_bits = 22;
};

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options = {});

// Called before every product is computed, with its inputs, f32 [rows, in], and the data of the matrix that
// its weight was imported from (HostMatrix::data).
using ProductObserver = std::function<void(const std::byte* matrix, Tensor in)>;

// Makes the same with an observer.
std::unique_ptr<Ops> make_observed_cpu_ops(const CpuOptions& options, ProductObserver observer);

}  // namespace fulmar
