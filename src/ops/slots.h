// The slots of recurrent states as their keepers see them: zero, copy, read and write, and nothing of the
// devices that hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/state.h"

namespace fulmar {

// Indices are 0 <= slot < the number of slots. Calls come from one thread and take effect in their order,
// behind the steps begun before them.
class Slots {
 public:
  virtual ~Slots() = default;

  // Of the bytes that read gives and write takes: the whole model's state, on however many devices it lies.
  virtual const StateLayout& layout() const = 0;
  virtual void zero(int64_t slot) = 0;
  virtual void copy(int64_t from, int64_t to) = 0;
  // To and from host memory of layout().slot_bytes(); read waits for pending work.
  virtual void read(int64_t slot, std::span<std::byte> out) = 0;
  virtual void write(int64_t slot, std::span<const std::byte> from) = 0;
};

}  // namespace fulmar
