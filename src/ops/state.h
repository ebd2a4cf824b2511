// The recurrent state of sequences: one slot of constant size each, addressed by index inside the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace fulmar {

// Where the parts of one slot lie. A slot is one contiguous block, so that saving, copying and forking is one
// copy: per layer att_shift [C], ffn_shift [C], wkv [H, N, N], value-major (row = value channel, column = key
// channel) for RWKV-7 and RWKV-6 alike. Every part starts at a multiple of 16 bytes.
struct StateLayout {
  int64_t n_layer = 0;
  int64_t n_embd = 0;     // C = n_head * head_size
  int64_t n_head = 0;     // H
  int64_t head_size = 0;  // N
  DType shift_dtype = DType::f32;
  DType wkv_dtype = DType::f32;

  static constexpr size_t align(size_t bytes) { return (bytes + 15) / 16 * 16; }
  size_t shift_bytes() const { return align(static_cast<size_t>(n_embd) * size_of(shift_dtype)); }
  size_t wkv_bytes() const { return align(static_cast<size_t>(n_embd * head_size) * size_of(wkv_dtype)); }
  size_t layer_bytes() const { return 2 * shift_bytes() + wkv_bytes(); }
  size_t slot_bytes() const { return static_cast<size_t>(n_layer) * layer_bytes(); }

  size_t att_shift_offset(int64_t layer) const { return static_cast<size_t>(layer) * layer_bytes(); }
  size_t ffn_shift_offset(int64_t layer) const { return att_shift_offset(layer) + shift_bytes(); }
  size_t wkv_offset(int64_t layer) const { return att_shift_offset(layer) + 2 * shift_bytes(); }

  bool operator==(const StateLayout&) const = default;
};

// One part of one layer in every slot: slot s starts at base + s * slot_stride.
struct StateField {
  std::byte* base = nullptr;
  size_t slot_stride = 0;  // bytes
  DType dtype = DType::f32;

  template <class T>
  T* at(int64_t slot) const {
    return reinterpret_cast<T*>(base + static_cast<size_t>(slot) * slot_stride);
  }
};

// View of all slots, in the memory of one backend. The last one is spare: no sequence's, for the rows that a
// backend pads its batches with.
struct State {
  std::byte* base = nullptr;
  int64_t slots = 0;
  StateLayout layout;

  StateField att_shift(int64_t layer) const {
    return field(layout.att_shift_offset(layer), layout.shift_dtype);
  }
  StateField ffn_shift(int64_t layer) const {
    return field(layout.ffn_shift_offset(layer), layout.shift_dtype);
  }
  StateField wkv(int64_t layer) const { return field(layout.wkv_offset(layer), layout.wkv_dtype); }

 private:
  StateField field(size_t offset, DType dtype) const { return {base + offset, layout.slot_bytes(), dtype}; }
};

}  // namespace fulmar
