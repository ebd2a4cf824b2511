// The recurrent state of sequences, in place of a KV cache: one slot of constant size each, addressed by
// index inside the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/field_spec.h"
#include "ops/state_field.h"
#include "tensor/format.h"

namespace fulmar {

// The layout of one state. It is one contiguous block, so that saving, copying and forking are one copy each:
// layer after layer its fields, in their order. Every field is 16-byte aligned.
struct StateLayout {
  int64_t n_layer = 0;
  int64_t n_embd = 0;     // C = n_head * head_size; larger where other ranks have the other heads
  int64_t n_head = 0;     // H
  int64_t head_size = 0;  // N
  DType shift_dtype = DType::f32;
  DType wkv_dtype = DType::f32;
  FieldList fields;

  DType dtype(const FieldSpec& field) const {
    if (field.type == FieldSpec::Type::f32) return DType::f32;
    return field.type == FieldSpec::Type::shift ? shift_dtype : wkv_dtype;
  }
  // Returns how many numbers one layer has of a field.
  int64_t count(const FieldSpec& field) const {
    if (!field.has_heads()) return n_embd;
    return n_head * head_size * (field.shape == FieldSpec::Shape::head_matrices ? head_size : 1);
  }
  // Returns the bytes of a layer's field, without the padding that aligns the next one.
  size_t data_bytes(const FieldSpec& field) const {
    return static_cast<size_t>(count(field)) * size_of(dtype(field));
  }
  // Returns the same with that padding.
  size_t field_bytes(const FieldSpec& field) const { return (data_bytes(field) + 15) / 16 * 16; }
  size_t layer_bytes() const { return bytes_before(fields.size()); }
  size_t slot_bytes() const { return static_cast<size_t>(n_layer) * layer_bytes(); }
  // Returns where a layer's field lies in a state; `field` is its index.
  size_t offset(int64_t layer, size_t field) const {
    return static_cast<size_t>(layer) * layer_bytes() + bytes_before(field);
  }

  bool operator==(const StateLayout&) const = default;

 private:
  size_t bytes_before(size_t field) const {
    size_t bytes = 0;
    for (size_t i = 0; i < field; i++) bytes += field_bytes(fields[i]);
    return bytes;
  }
};

// A view of all slots, in the memory of one backend. The last slot is spare: it belongs to no sequence and
// serves the rows that a backend pads its batches with. A slot is a state followed by its ring: per layer
// what replays rows, [heads, rows, part], then after each row the values of the fields that are restored.
struct State {
  std::byte* base = nullptr;
  int64_t slots = 0;
  StateLayout layout;
  RingLayout ring;
  RingCursor* cursors = nullptr;  // [slots], in host memory; null: no rings

  bool has_rings() const { return cursors != nullptr && ring.rows > 0; }
  size_t ring_layer_bytes() const { return ring_bytes_before(layout.fields.size()); }
  size_t slot_stride() const {
    return layout.slot_bytes() + static_cast<size_t>(layout.n_layer) * ring_layer_bytes();
  }
  std::byte* slot(int64_t index) const { return base + static_cast<size_t>(index) * slot_stride(); }

  // Returns a layer's field in all slots; `index` is that of layout.fields.
  StateField field(int64_t layer, size_t index) const {
    const FieldSpec& spec = layout.fields[index];
    StateField found{base + layout.offset(layer, index), slot_stride(), layout.dtype(spec), {}};
    const bool replayed = spec.roll_back == FieldSpec::RollBack::replayed;
    if (!has_rings() || (!replayed && !ring.revocable)) return found;
    const size_t part = ring.part_bytes(layout.head_size);
    const size_t head = replayed ? static_cast<size_t>(ring.rows) * part : 0;
    const size_t before = replayed ? 0 : ring_bytes_before(index);
    found.ring = {base + layout.slot_bytes() + static_cast<size_t>(layer) * ring_layer_bytes() + before,
                  found.slot_stride,
                  head,
                  replayed ? part : ring_row_bytes(spec),
                  ring_dtype(spec),
                  ring};
    return found;
  }
  StateField att_shift(int64_t layer) const { return field(layer, kAttShift); }
  StateField ffn_shift(int64_t layer) const { return field(layer, kFfnShift); }
  StateField wkv(int64_t layer) const { return field(layer, kWkv); }

 private:
  // Returns the type in which a ring keeps a field: a shift's values are activations.
  DType ring_dtype(const FieldSpec& spec) const {
    const bool activations = spec.type == FieldSpec::Type::shift;
    return activations || spec.roll_back == FieldSpec::RollBack::replayed ? ring.dtype : layout.dtype(spec);
  }
  // Returns the bytes of one row's value of a restored field.
  size_t ring_row_bytes(const FieldSpec& spec) const {
    return RingLayout::align(static_cast<size_t>(layout.count(spec)) * size_of(ring_dtype(spec)));
  }
  // Returns the bytes of a layer's ring before the values of a field that is restored.
  size_t ring_bytes_before(size_t field) const {
    size_t bytes = ring.wkv_bytes(layout.n_head, layout.head_size);
    for (size_t i = 0; ring.revocable && i < field; i++) {
      const FieldSpec& one = layout.fields[i];
      if (one.roll_back == FieldSpec::RollBack::restored) {
        bytes += static_cast<size_t>(ring.rows) * ring_row_bytes(one);
      }
    }
    return bytes;
  }
};

}  // namespace fulmar
