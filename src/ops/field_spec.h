// The fields of a layer's state, as a block declares them: slots, rings, roll-backs, saved states and ranks
// follow from this list alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fulmar {

// A field's name: at most 15 bytes, held by value, so that lists of fields depend on no other memory.
class FieldName {
 public:
  static constexpr size_t kLongest = 15;
  constexpr FieldName() = default;
  constexpr FieldName(const char* name) : FieldName(std::string_view(name)) {}
  constexpr explicit FieldName(std::string_view name) { std::ranges::copy(name, text_.begin()); }

  constexpr std::string_view view() const { return text_.data(); }
  bool operator==(const FieldName&) const = default;

 private:
  std::array<char, kLongest + 1> text_ = {};
};

struct FieldSpec {
  // [C], which all ranks have; [H, N] and [H, N, N], value-major, of which each has its heads.
  enum class Shape : uint8_t { channels, head_vectors, head_matrices };
  // StateLayout::shift_dtype, of values that are activations; StateLayout::wkv_dtype; always f32.
  enum class Type : uint8_t { shift, wkv, f32 };
  // How a ring has its earlier values: as copies to restore, or as rows to replay (KeptRow, one field only).
  enum class RollBack : uint8_t { restored, replayed };

  FieldName name;
  Shape shape = Shape::channels;
  Type type = Type::shift;
  RollBack roll_back = RollBack::restored;

  constexpr bool has_heads() const { return shape != Shape::channels; }
  bool operator==(const FieldSpec&) const = default;
};

// The fields in the order of their memory. There is no default: who makes a layout says whose it is.
class FieldList {
 public:
  static constexpr size_t kMost = 8;
  template <size_t N>
  constexpr FieldList(const FieldSpec (&list)[N]) : FieldList(std::span<const FieldSpec>(list)) {
    static_assert(N <= kMost);
  }
  // Copies at most kMost fields.
  constexpr explicit FieldList(std::span<const FieldSpec> list) : size_(list.size()) {
    std::ranges::copy(list, fields_.begin());
  }

  static constexpr FieldList none() { return FieldList(std::span<const FieldSpec>()); }

  constexpr size_t size() const { return size_; }
  constexpr const FieldSpec* begin() const { return fields_.data(); }
  constexpr const FieldSpec* end() const { return begin() + size_; }
  constexpr const FieldSpec& operator[](size_t index) const { return fields_[index]; }
  // Returns the index of the field that is replayed; size() where none is.
  constexpr size_t replayed() const {
    return static_cast<size_t>(
        std::ranges::find(*this, FieldSpec::RollBack::replayed, &FieldSpec::roll_back) - begin());
  }
  bool operator==(const FieldList&) const = default;

 private:
  std::array<FieldSpec, kMost> fields_ = {};
  size_t size_ = 0;
};

// The fields of RWKV-7 and RWKV-6. Rows of wkv are value channels, columns are key channels.
inline constexpr size_t kAttShift = 0, kFfnShift = 1, kWkv = 2;
inline constexpr FieldSpec kShiftsAndWkv[] = {
    {"att_shift", FieldSpec::Shape::channels, FieldSpec::Type::shift, FieldSpec::RollBack::restored},
    {"ffn_shift", FieldSpec::Shape::channels, FieldSpec::Type::shift, FieldSpec::RollBack::restored},
    {"wkv", FieldSpec::Shape::head_matrices, FieldSpec::Type::wkv, FieldSpec::RollBack::replayed},
};

}  // namespace fulmar
