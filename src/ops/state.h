// The recurrent state of sequences, in place of a KV cache: one slot of constant size each, addressed by
// index inside the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/state_field.h"
#include "tensor/format.h"

namespace fulmar {

// The layout of one state. It is one contiguous block, so that saving, copying and forking are one copy each:
// per layer att_shift [C], ffn_shift [C], wkv [H, N, N], value-major (row = value channel, column = key
// channel) in RWKV-7 and RWKV-6 alike. Every field is 16-byte aligned.
struct StateLayout {
  int64_t n_layer = 0;
  int64_t n_embd = 0;     // C = n_head * head_size; larger where other ranks have the other heads
  int64_t n_head = 0;     // H
  int64_t head_size = 0;  // N
  DType shift_dtype = DType::f32;
  DType wkv_dtype = DType::f32;

  static constexpr size_t align(size_t bytes) { return (bytes + 15) / 16 * 16; }
  size_t shift_bytes() const { return align(static_cast<size_t>(n_embd) * size_of(shift_dtype)); }
  size_t head_bytes() const { return static_cast<size_t>(head_size * head_size) * size_of(wkv_dtype); }
  size_t wkv_bytes() const { return align(static_cast<size_t>(n_head) * head_bytes()); }
  size_t layer_bytes() const { return 2 * shift_bytes() + wkv_bytes(); }
  size_t slot_bytes() const { return static_cast<size_t>(n_layer) * layer_bytes(); }

  size_t att_shift_offset(int64_t layer) const { return static_cast<size_t>(layer) * layer_bytes(); }
  size_t ffn_shift_offset(int64_t layer) const { return att_shift_offset(layer) + shift_bytes(); }
  size_t wkv_offset(int64_t layer) const { return att_shift_offset(layer) + 2 * shift_bytes(); }

  bool operator==(const StateLayout&) const = default;
};

// A view of all slots, in the memory of one backend. The last slot is spare: it belongs to no sequence and
// serves the rows that a backend pads its batches with. A slot is a state followed by its ring: per layer the
// recurrence's [heads, rows, part], then att_shift and ffn_shift after each row.
struct State {
  std::byte* base = nullptr;
  int64_t slots = 0;
  StateLayout layout;
  RingLayout ring;
  RingCursor* cursors = nullptr;  // [slots], in host memory; null: no rings

  bool has_rings() const { return cursors != nullptr && ring.rows > 0; }
  size_t ring_layer_bytes() const {
    return ring.wkv_bytes(layout.n_head, layout.head_size) + 2 * ring.shift_bytes(layout.n_embd);
  }
  size_t slot_stride() const {
    return layout.slot_bytes() + static_cast<size_t>(layout.n_layer) * ring_layer_bytes();
  }
  std::byte* slot(int64_t index) const { return base + static_cast<size_t>(index) * slot_stride(); }

  StateField att_shift(int64_t layer) const { return shift(layer, layout.att_shift_offset(layer), 0); }
  StateField ffn_shift(int64_t layer) const {
    return shift(layer, layout.ffn_shift_offset(layer), ring.shift_bytes(layout.n_embd));
  }
  StateField wkv(int64_t layer) const {
    StateField field{base + layout.wkv_offset(layer), slot_stride(), layout.wkv_dtype, {}};
    if (!has_rings()) return field;
    const size_t part = ring.part_bytes(layout.head_size);
    field.ring = {base + ring_offset(layer), field.slot_stride, static_cast<size_t>(ring.rows) * part, part,
                  ring};
    return field;
  }

 private:
  size_t ring_offset(int64_t layer) const {
    return layout.slot_bytes() + static_cast<size_t>(layer) * ring_layer_bytes();
  }
  StateField shift(int64_t layer, size_t offset, size_t behind) const {
    StateField field{base + offset, slot_stride(), layout.shift_dtype, {}};
    if (!has_rings() || !ring.revocable) return field;
    field.ring = {base + ring_offset(layer) + ring.wkv_bytes(layout.n_head, layout.head_size) + behind,
                  field.slot_stride, 0, ring.shift_row_bytes(layout.n_embd), ring};
    return field;
  }
};

}  // namespace fulmar
