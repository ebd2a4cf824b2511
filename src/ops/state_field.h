// One field of one layer in the slots of all sequences, as islands and kernels address it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/ring.h"
#include "tensor/format.h"

namespace fulmar {

// A layer's part of the rings of all slots: that of slot s begins at base + s * slot_stride.
struct RingField {
  std::byte* base = nullptr;                                // null: no ring, or no such field in it
  size_t slot_stride = 0, head_stride = 0, row_stride = 0;  // bytes; restored fields are whole
  DType dtype = DType::f32;                                 // of what rows keep of the field
  RingLayout layout;

  constexpr std::byte* row(int64_t slot, int64_t head, int64_t row) const {
    return base + static_cast<size_t>(slot) * slot_stride + static_cast<size_t>(head) * head_stride +
           static_cast<size_t>(row % layout.rows) * row_stride;
  }
};

// One field of one layer in all slots: that of slot s begins at base + s * slot_stride.
struct StateField {
  std::byte* base = nullptr;
  size_t slot_stride = 0;  // bytes
  DType dtype = DType::f32;
  RingField ring;

  template <class T>
  T* at(int64_t slot) const {
    return reinterpret_cast<T*>(base + static_cast<size_t>(slot) * slot_stride);
  }
};

}  // namespace fulmar
