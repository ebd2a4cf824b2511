#include "support/declared_fields.h"

#include <gtest/gtest.h>

#include <random>

#include "cache/state_blob.h"
#include "model/state_pool.h"
#include "tensor/convert.h"

namespace fulmar::support {

namespace {

using Bytes = std::vector<std::byte>;

StateLayout layout_on(const Ops& ops) {
  return {2, 256, 4, 64, ops.shift_dtype(), ops.wkv_dtype(), kMadeUpFields};
}

StatePool pool_of(Ops& ops, const RingLayout& ring = {}) {
  auto pool = StatePool::make(ops, layout_on(ops), 3, ring);
  EXPECT_TRUE(pool.ok());
  return std::move(*pool);
}

// Calls use(layer, index) for every field of every layer.
template <class Use>
void for_fields(const StateLayout& layout, const Use& use) {
  for (int64_t layer = 0; layer < layout.n_layer; layer++) {
    for (size_t i = 0; i < layout.fields.size(); i++) use(layer, i);
  }
}

std::vector<float> numbers(int64_t count, DType exact_in, std::mt19937& random) {
  std::uniform_real_distribution<float> any(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = any(random);
  Bytes rounded(values.size() * size_of(exact_in));
  from_f32(values, exact_in, rounded.data());
  to_f32(exact_in, rounded.data(), values);
  return values;
}

Bytes as(DType dtype, const std::vector<float>& values) {
  Bytes bytes(values.size() * size_of(dtype));
  from_f32(values, dtype, bytes.data());
  return bytes;
}

Bytes any_state(const StateLayout& layout, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes state(layout.slot_bytes());
  for_fields(layout, [&](int64_t layer, size_t i) {
    const DType dtype = layout.dtype(layout.fields[i]);
    const auto values = numbers(layout.count(layout.fields[i]), dtype, random);
    from_f32(values, dtype, state.data() + layout.offset(layer, i));
  });
  return state;
}

Bytes field_in(const Bytes& state, const StateLayout& layout, int64_t layer, size_t i) {
  const auto from = state.begin() + static_cast<ptrdiff_t>(layout.offset(layer, i));
  return {from, from + static_cast<ptrdiff_t>(layout.data_bytes(layout.fields[i]))};
}

// A step of rows that may be lost, of which a block keeps every restored field after each row.
class RevocableStep {
 public:
  RevocableStep(Ops& ops, StatePool& pool) : ops_(ops), state_(pool.view()) {}

  void feed(int64_t slot, int32_t rows) {
    const std::vector<int32_t> token(static_cast<size_t>(rows)), start{0, rows};
    const auto index = static_cast<int32_t>(slot);
    const uint8_t revocable = 1;
    const RingCursor before = state_.cursors[slot];
    ops_.begin_step(
        {.token = token, .start = start, .slot = {&index, 1}, .wanted = {}, .revocable = {&revocable, 1}},
        state_);
    kept_.assign(static_cast<size_t>(rows), {});
    for_fields(state_.layout, [&](int64_t layer, size_t i) {
      const FieldSpec& spec = state_.layout.fields[i];
      const StateField field = state_.field(layer, i);
      for (int32_t row = 0; row < rows; row++) {
        const int64_t place = before.first + before.held + row;
        if (spec.roll_back == FieldSpec::RollBack::replayed) {
          clear_replayed(field, slot, place);
          continue;
        }
        const auto values = numbers(state_.layout.count(spec), field.ring.dtype, random_);
        put(field.ring.row(slot, 0, place), as(field.ring.dtype, values));
        kept_[static_cast<size_t>(row)].push_back(as(field.dtype, values));
        if (row + 1 == rows) put(field.at<std::byte>(slot), kept_.back().back());
      }
    });
  }

  // Expects that the restored fields are those after the step's row `row`.
  void expect_row(const Bytes& state, size_t row) const {
    size_t next = 0;
    for_fields(state_.layout, [&](int64_t layer, size_t i) {
      const FieldSpec& spec = state_.layout.fields[i];
      if (spec.roll_back == FieldSpec::RollBack::replayed) return;
      EXPECT_EQ(field_in(state, state_.layout, layer, i), kept_[row][next++])
          << spec.name.view() << " of layer " << layer << " after row " << row;
    });
  }

 private:
  void put(std::byte* to, const Bytes& bytes) { ops_.write(to, bytes.data(), bytes.size()); }
  void clear_replayed(const StateField& field, int64_t slot, int64_t row) {
    for (int64_t head = 0; head < state_.layout.n_head; head++) {
      put(field.ring.row(slot, head, row), Bytes(field.ring.row_stride));
    }
  }

  Ops& ops_;
  const State state_;
  std::mt19937 random_{5};
  std::vector<std::vector<Bytes>> kept_;  // [row], each restored field of each layer in turn
};

}  // namespace

void expect_roll_backs(Ops& ops, const StateWrites& writes) {
  const RingLayout ring = ring_layout(writes, {5, true}, ops.activation_dtype());
  StatePool pool = pool_of(ops, ring);
  pool.write(0, any_state(pool.layout(), 1));
  RevocableStep step(ops, pool);
  const auto rows = static_cast<int32_t>(most_revocable(ring));
  ASSERT_GE(rows, 3);
  for (int32_t lost = 0; lost < rows; lost++) {
    step.feed(0, rows);
    pool.copy(0, 1);
    pool.roll_back(0, lost);
    step.expect_row(pool.read(0), static_cast<size_t>(rows - 1 - lost));
    // A copy has a ring of its own.
    step.expect_row(pool.read(1), static_cast<size_t>(rows - 1));
    pool.roll_back(1, 1);
    step.expect_row(pool.read(1), static_cast<size_t>(rows - 2));
  }
}

void expect_moves(Ops& ops) {
  StatePool pool = pool_of(ops);
  const StateLayout& layout = pool.layout();
  const Bytes state = any_state(layout, 2);
  pool.write(0, state);
  pool.copy(0, 1);
  EXPECT_EQ(pool.read(1), state);
  pool.zero(0);
  EXPECT_EQ(pool.read(0), Bytes(layout.slot_bytes()));

  const auto saved = decode_blob(encode_blob(
      {.fingerprint = "model", .layout = layout, .tokens = 3, .turn = 1, .payload = pool.read(1)}));
  ASSERT_TRUE(saved.ok()) << saved.error().text;
  const auto payload = payload_for(*saved, "model", layout);
  ASSERT_TRUE(payload.ok()) << payload.error().text;
  EXPECT_TRUE(check_finite(*payload, layout).ok());
  pool.write(0, *payload);
  EXPECT_EQ(pool.read(0), state);

  Rank first(ops, Rank::Drive::leader), second(ops, Rank::Drive::leader);
  const StatePool::Share shares[] = {{&first, layout.n_layer, {0, 2}}, {&second, layout.n_layer, {1, 2}}};
  auto divided = StatePool::make(shares, layout, 2);
  ASSERT_TRUE(divided.ok()) << divided.error().text;
  divided->write(1, state);
  EXPECT_EQ(divided->read(1), state);
  const Bytes own = [&] {
    Bytes bytes(divided->view(1).layout.slot_bytes());
    ops.read_slot(divided->view(1), 1, bytes);
    return bytes;
  }();
  for_fields(layout, [&](int64_t layer, size_t i) {
    const Bytes whole = field_in(state, layout, layer, i);
    const auto from = static_cast<ptrdiff_t>(layout.fields[i].has_heads() ? whole.size() / 2 : 0);
    EXPECT_EQ(field_in(own, divided->view(1).layout, layer, i), Bytes(whole.begin() + from, whole.end()))
        << layout.fields[i].name.view();
  });
}

}  // namespace fulmar::support
