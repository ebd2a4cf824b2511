// The slots of recurrent states as their keepers see them: zero, copy, read and write, and nothing else of a
// device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/state.h"

namespace fulmar {

// All slots of `state` lie in this device's memory; indices are 0 <= slot < state.slots. Calls come from one
// thread and take effect in their order, behind the steps begun before them.
class Slots {
 public:
  virtual ~Slots() = default;

  virtual void zero_slot(const State& state, int64_t slot) = 0;
  virtual void copy_slot(const State& state, int64_t from, int64_t to) = 0;
  // To and from host memory of state.layout.slot_bytes(); read_slot waits for pending work.
  virtual void read_slot(const State& state, int64_t slot, std::span<std::byte> out) = 0;
  virtual void write_slot(const State& state, int64_t slot, std::span<const std::byte> from) = 0;
};

}  // namespace fulmar
