// The slots of recurrent states for those that manage them: zero, copy, read and write, without the devices
// that hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/state.h"

namespace fulmar {

// Indices are 0 <= slot < the number of slots. Calls come from one thread and take effect in order, after the
// steps begun before them.
class StateSlots {
 public:
  virtual ~StateSlots() = default;

  // Returns the layout of the bytes that read and write copy: the whole model's state, also where several
  // devices hold it.
  virtual const StateLayout& layout() const = 0;
  virtual void zero(int64_t slot) = 0;
  virtual void copy(int64_t from, int64_t to) = 0;
  // Copies a slot to host memory of layout().slot_bytes(), once pending work is done.
  virtual void read(int64_t slot, std::span<std::byte> out) = 0;
  // Copies host memory of layout().slot_bytes() to a slot.
  virtual void write(int64_t slot, std::span<const std::byte> from) = 0;
};

}  // namespace fulmar
