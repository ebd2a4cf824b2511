// The CPU backend: weights borrowed from the mapped file, activations and state in f32.
#pragma once

#include <memory>

#include "ops/ops.h"

namespace fulmar {

struct CpuOptions {
  int threads = 0;  // 0: one per core this process may use
  StateWrites state_writes;
  bool deterministic = false;  // as DeviceOptions has it
};

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options = {});

}  // namespace fulmar
