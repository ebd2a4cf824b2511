// The recurrent state of sequences, in place of a KV cache: one slot of constant size each, addressed by
// index inside the kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/state_field.h"
#include "tensor/format.h"

namespace fulmar {

// A field of a layer's state, as its block declares it.
struct FieldSpec {
  enum class Shape : uint8_t { channels, heads };  // [C]; [H, N, N], value-major
  enum class Type : uint8_t { shift, wkv };        // StateLayout::shift_dtype, wkv_dtype
  enum class Cut : uint8_t { none, heads };        // ranks have all of it, or their heads of it
  // How a ring has its earlier values: as copies to restore, or as rows to replay.
  enum class RollBack : uint8_t { restored, replayed };

  std::string_view name;
  Shape shape;
  Type type;
  Cut cut;
  RollBack roll_back;

  bool operator==(const FieldSpec&) const = default;
};

// The fields of RWKV-7 and RWKV-6, and of every saved state. Rows of wkv are value channels, columns are key
// channels.
enum : size_t { kAttShift, kFfnShift, kWkv };
inline constexpr FieldSpec kShiftsAndWkv[] = {
    {"att_shift", FieldSpec::Shape::channels, FieldSpec::Type::shift, FieldSpec::Cut::none,
     FieldSpec::RollBack::restored},
    {"ffn_shift", FieldSpec::Shape::channels, FieldSpec::Type::shift, FieldSpec::Cut::none,
     FieldSpec::RollBack::restored},
    {"wkv", FieldSpec::Shape::heads, FieldSpec::Type::wkv, FieldSpec::Cut::heads,
     FieldSpec::RollBack::replayed},
};

// The layout of one state. It is one contiguous block, so that saving, copying and forking are one copy each:
// layer after layer its fields, in their order. Every field is 16-byte aligned.
struct StateLayout {
  int64_t n_layer = 0;
  int64_t n_embd = 0;     // C = n_head * head_size; larger where other ranks have the other heads
  int64_t n_head = 0;     // H
  int64_t head_size = 0;  // N
  DType shift_dtype = DType::f32;
  DType wkv_dtype = DType::f32;
  std::span<const FieldSpec> fields = kShiftsAndWkv;

  DType dtype(const FieldSpec& field) const {
    return field.type == FieldSpec::Type::shift ? shift_dtype : wkv_dtype;
  }
  // Returns how many numbers one layer has of a field.
  int64_t count(const FieldSpec& field) const {
    return field.shape == FieldSpec::Shape::channels ? n_embd : n_head * head_size * head_size;
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

  bool operator==(const StateLayout& other) const {
    return n_layer == other.n_layer && n_embd == other.n_embd && n_head == other.n_head &&
           head_size == other.head_size && shift_dtype == other.shift_dtype && wkv_dtype == other.wkv_dtype &&
           std::ranges::equal(fields, other.fields);
  }

 private:
  size_t bytes_before(size_t field) const {
    size_t bytes = 0;
    for (const FieldSpec& one : fields.first(field)) bytes += field_bytes(one);
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
                  found.slot_stride, head, replayed ? part : ring.shift_row_bytes(layout.n_embd), ring};
    return found;
  }
  StateField att_shift(int64_t layer) const { return field(layer, kAttShift); }
  StateField ffn_shift(int64_t layer) const { return field(layer, kFfnShift); }
  StateField wkv(int64_t layer) const { return field(layer, kWkv); }

 private:
  // Returns the bytes of a layer's ring before the values of a field that is restored.
  size_t ring_bytes_before(size_t field) const {
    size_t bytes = ring.wkv_bytes(layout.n_head, layout.head_size);
    for (const FieldSpec& one : layout.fields.first(field)) {
      if (one.roll_back == FieldSpec::RollBack::restored) bytes += ring.shift_bytes(layout.n_embd);
    }
    return bytes;
  }
};

}  // namespace fulmar
