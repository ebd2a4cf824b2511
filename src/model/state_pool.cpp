#include "model/state_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.h"
#include "tensor/convert.h"

namespace fulmar {

Result<StatePool> StatePool::make(std::span<const Share> shares, const StateLayout& layout, int64_t slots,
                                  const RingLayout& ring) {
  const size_t each = State{nullptr, 1, layout, ring}.slot_stride();
  if (slots < 1 || each == 0 || static_cast<size_t>(slots) >= std::numeric_limits<size_t>::max() / each) {
    return Error{ErrorKind::invalid, "cannot hold " + std::to_string(slots) + " states of " +
                                         std::to_string(each) + " bytes; wanted at least 1 slot"};
  }
  FULMAR_CHECK(std::ranges::count(layout.fields, FieldSpec::RollBack::replayed, &FieldSpec::roll_back) <= 1,
               "rings hold the rows of one field");
  StatePool pool(layout, slots, ring);
  int64_t first = 0;
  for (const Share& share : shares) {
    FULMAR_TRY(pool.add(share, first));
    if (share.slice.index + 1 == share.slice.count) first += share.layers;
  }
  FULMAR_CHECK(first == layout.n_layer);
  return pool;
}

Result<StatePool> StatePool::make(Ops& ops, const StateLayout& layout, int64_t slots,
                                  const RingLayout& ring) {
  auto rank = std::make_unique<Rank>(ops, Rank::Drive::leader);
  const Share all{rank.get(), layout.n_layer};
  FULMAR_ASSIGN(StatePool pool, make({&all, 1}, layout, slots, ring));
  pool.own_ = std::move(rank);
  return pool;
}

Status StatePool::add(const Share& share, int64_t first) {
  const StateLayout part = layout_of(layout_, share.layers, share.slice);
  Status status;
  share.rank->run([&] {
    Ops& ops = share.rank->ops();
    State state{nullptr, slots_ + 1, part, ring_};
    auto memory = ops.allocate(static_cast<size_t>(state.slots) * state.slot_stride());
    if (!memory.ok()) {
      status = memory.error();
      return;
    }
    state.base = static_cast<std::byte*>(memory->data());
    std::unique_ptr<RingCursor[]> cursors, marks;
    if (ring_.rows > 0) cursors = std::make_unique<RingCursor[]>(static_cast<size_t>(state.slots));
    if (ring_.rows > 0) marks = std::make_unique<RingCursor[]>(static_cast<size_t>(state.slots));
    state.cursors = cursors.get();
    for (int64_t slot = 0; slot <= slots_; slot++) ops.zero_slot(state, slot);
    parts_.push_back(
        {share.rank, std::move(*memory), std::move(cursors), std::move(marks), state, first, share.slice});
  });
  return status;
}

StatePool::~StatePool() {
  for (const Holding& part : parts_) part.rank->finish();
}

void StatePool::zero(int64_t slot) {
  for (const Holding& part : parts_) {
    part.rank->post([&ops = part.rank->ops(), state = part.state, slot] { ops.zero_slot(state, slot); });
  }
}

void StatePool::copy(int64_t from, int64_t to) {
  for (const Holding& part : parts_) {
    part.rank->post(
        [&ops = part.rank->ops(), state = part.state, from, to] { ops.copy_slot(state, from, to); });
  }
}

void StatePool::roll_back(int64_t slot, int64_t rows) {
  for (const Holding& part : parts_) {
    part.rank->post(
        [&ops = part.rank->ops(), state = part.state, slot, rows] { ops.roll_back(state, slot, rows); });
  }
}

void StatePool::mark(std::span<const int32_t> slots) {
  if (ring_.rows == 0) return;
  for (const Holding& part : parts_) {
    part.rank->post([cursors = part.cursors.get(), marks = part.marks.get(),
                     slots = std::vector<int32_t>(slots.begin(), slots.end())] {
      for (const int32_t slot : slots) marks[slot] = cursors[slot];
    });
  }
}

void StatePool::return_to_mark(int64_t slot) {
  if (ring_.rows == 0) return;
  for (const Holding& part : parts_) {
    part.rank->post(
        [cursors = part.cursors.get(), marks = part.marks.get(), slot] { cursors[slot] = marks[slot]; });
  }
}

template <class Copy>
void StatePool::for_fields(const Holding& part, const Copy& copy) const {
  const StateLayout& own = part.state.layout;
  for (int64_t l = 0; l < own.n_layer; l++) {
    for (size_t i = 0; i < own.fields.size(); i++) {
      const FieldSpec& field = own.fields[i];
      const bool cut = field.has_heads();
      const size_t bytes = cut ? own.data_bytes(field) : own.field_bytes(field);
      const size_t before = cut ? bytes * static_cast<size_t>(part.slice.index) : 0;
      copy(field, own.offset(l, i), layout_.offset(part.first + l, i) + before, bytes);
    }
  }
}

void StatePool::put_slice(const Holding& part, std::span<const std::byte> own,
                          std::span<std::byte> whole) const {
  for_fields(part, [&](const FieldSpec& field, size_t from, size_t to, size_t bytes) {
    if (!field.has_heads() && part.slice.index > 0) return;
    std::memcpy(whole.data() + to, own.data() + from, bytes);
  });
}

std::vector<std::byte> StatePool::take_slice(const Holding& part, std::span<const std::byte> whole) const {
  std::vector<std::byte> own(part.state.layout.slot_bytes());
  for_fields(part, [&](const FieldSpec&, size_t to, size_t from, size_t bytes) {
    std::memcpy(own.data() + to, whole.data() + from, bytes);
  });
  return own;
}

void StatePool::read(int64_t slot, std::span<std::byte> out) {
  FULMAR_CHECK(out.size() == layout_.slot_bytes());
  for (const Holding& part : parts_) {
    const auto read_to = [&](std::span<std::byte> own) {
      part.rank->run([&] { part.rank->ops().read_slot(part.state, slot, own); });
    };
    if (part.slice.whole()) {
      read_to(out.subspan(offset_of(part), part.state.layout.slot_bytes()));
      continue;
    }
    std::vector<std::byte> own(part.state.layout.slot_bytes());
    read_to(own);
    put_slice(part, own, out);
  }
}

void StatePool::write(int64_t slot, std::span<const std::byte> from) {
  FULMAR_CHECK(from.size() == layout_.slot_bytes());
  for (const Holding& part : parts_) {
    const auto own =
        from.subspan(offset_of(part), static_cast<size_t>(part.state.layout.n_layer) * layout_.layer_bytes());
    Rank& rank = *part.rank;
    if (!rank.threaded() && part.slice.whole()) {
      rank.ops().write_slot(part.state, slot, own);
      continue;
    }
    // Posts a copy of the bytes, so that the caller does not wait for earlier steps.
    auto bytes = part.slice.whole() ? std::vector<std::byte>(own.begin(), own.end()) : take_slice(part, from);
    rank.post([&ops = rank.ops(), state = part.state, slot,
               bytes = std::make_shared<std::vector<std::byte>>(std::move(bytes))] {
      ops.write_slot(state, slot, *bytes);
    });
  }
}

std::vector<std::byte> StatePool::read(int64_t slot) {
  std::vector<std::byte> bytes(layout_.slot_bytes());
  read(slot, bytes);
  return bytes;
}

Status StatePool::set(int64_t slot, std::span<const std::byte> bytes) {
  if (bytes.size() != layout_.slot_bytes()) {
    return Error{ErrorKind::invalid, "a state of " + std::to_string(bytes.size()) +
                                         " bytes; this model's has " + std::to_string(layout_.slot_bytes())};
  }
  write(slot, bytes);
  return {};
}

Status StatePool::set_initial(int64_t slot, std::span<const std::vector<float>> wkv) {
  const size_t field = layout_.fields.replayed();
  if (field == layout_.fields.size()) {
    return Error{ErrorKind::unsupported, "an initial state is a recurrence's; this model has none"};
  }
  const FieldSpec& spec = layout_.fields[field];
  const auto count = static_cast<size_t>(layout_.count(spec));
  if (wkv.size() != static_cast<size_t>(layout_.n_layer)) {
    return Error{ErrorKind::invalid, "an initial state of " + std::to_string(wkv.size()) +
                                         " layers; this model has " + std::to_string(layout_.n_layer)};
  }
  std::vector<std::byte> bytes(layout_.slot_bytes());
  for (size_t layer = 0; layer < wkv.size(); layer++) {
    if (wkv[layer].size() != count) {
      return Error{ErrorKind::invalid, "an initial state with " + std::to_string(wkv[layer].size()) +
                                           " numbers in layer " + std::to_string(layer) +
                                           "; this model's has " + std::to_string(count)};
    }
    from_f32(wkv[layer], layout_.dtype(spec),
             bytes.data() + layout_.offset(static_cast<int64_t>(layer), field));
  }
  write(slot, bytes);
  return {};
}

}  // namespace fulmar
