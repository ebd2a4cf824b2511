// Where fields lie in a state and in its ring, by what a block declares of them.
#include "ops/state.h"

#include <gtest/gtest.h>

#include <vector>

namespace fulmar {
namespace {

constexpr StateLayout kLayout{
    .n_layer = 3, .n_embd = 128, .n_head = 2, .head_size = 64, .fields = kShiftsAndWkv};
constexpr size_t kShift = 128 * 4, kMatrix = 2 * 64 * 64 * 4;

// Stored sessions and uploaded states have these offsets.
TEST(StateLayout, HasTwoShiftsAndAMatrixInEachLayer) {
  EXPECT_EQ(kLayout.layer_bytes(), 2 * kShift + kMatrix);
  EXPECT_EQ(kLayout.slot_bytes(), 3 * kLayout.layer_bytes());
  EXPECT_EQ(kLayout.offset(0, kAttShift), 0u);
  EXPECT_EQ(kLayout.offset(1, kFfnShift), kLayout.layer_bytes() + kShift);
  EXPECT_EQ(kLayout.offset(2, kWkv), 2 * kLayout.layer_bytes() + 2 * kShift);
}

TEST(StateLayout, AlignsEveryField) {
  const StateLayout odd{.n_layer = 1,
                        .n_embd = 6,
                        .n_head = 2,
                        .head_size = 3,
                        .shift_dtype = DType::f16,
                        .wkv_dtype = DType::f16,
                        .fields = kShiftsAndWkv};
  EXPECT_EQ(odd.offset(0, kFfnShift), 16u);
  EXPECT_EQ(odd.offset(0, kWkv), 32u);
  EXPECT_EQ(odd.data_bytes(kShiftsAndWkv[kWkv]), 36u);
  EXPECT_EQ(odd.layer_bytes(), 32u + 48u);
}

// A block with one more field, between those of the others.
TEST(StateLayout, PlacesAFieldThatAnotherBlockDeclares) {
  const FieldSpec fields[] = {
      kShiftsAndWkv[kAttShift],
      {"memory", FieldSpec::Shape::channels, FieldSpec::Type::f32, FieldSpec::RollBack::restored},
      kShiftsAndWkv[kWkv],
      {"last", FieldSpec::Shape::head_vectors, FieldSpec::Type::wkv, FieldSpec::RollBack::restored}};
  StateLayout layout = kLayout;
  layout.wkv_dtype = DType::f16;
  layout.fields = fields;
  EXPECT_NE(layout, kLayout);
  EXPECT_EQ(layout.offset(0, 2), 2 * kShift);
  EXPECT_EQ(layout.layer_bytes(), 2 * kShift + kMatrix / 2 + kShift / 2);

  RingCursor cursors[2] = {};
  State state{nullptr, 2, layout, ring_layout({.every = 2, .revocable = 3}, {3, false}, DType::f16), cursors};
  // A shift's rows are activations, others are what the state holds.
  const size_t replayed = state.ring.wkv_bytes(2, 64), shift = 4 * kShift / 2, memory = 4 * kShift;
  EXPECT_EQ(state.ring_layer_bytes(), replayed + shift + memory + 4 * kShift / 2);
  EXPECT_EQ(state.slot_stride(), layout.slot_bytes() + 3 * state.ring_layer_bytes());
  std::vector<std::byte> bytes(2 * state.slot_stride());
  state.base = bytes.data();
  const auto ring_of = [&](int64_t layer, size_t field) {
    return static_cast<size_t>(state.field(layer, field).ring.base - bytes.data()) - layout.slot_bytes() -
           static_cast<size_t>(layer) * state.ring_layer_bytes();
  };
  EXPECT_EQ(ring_of(1, 2), 0u);
  EXPECT_EQ(ring_of(0, 0), replayed);
  EXPECT_EQ(ring_of(2, 1), replayed + shift);
  EXPECT_EQ(ring_of(1, 3), replayed + shift + memory);
  for (const auto& [field, dtype] :
       {std::pair(0, DType::f16), {1, DType::f32}, {2, DType::f16}, {3, DType::f16}}) {
    EXPECT_EQ(state.field(0, static_cast<size_t>(field)).ring.dtype, dtype) << field;
  }
}

}  // namespace
}  // namespace fulmar
