#include "model/state_pool.h"

#include <limits>
#include <string>

#include "tensor/convert.h"

namespace fulmar {

Result<StatePool> StatePool::make(Ops& ops, const StateLayout& layout, int64_t slots,
                                  const RingLayout& ring) {
  State state{nullptr, slots + 1, layout, ring};
  const size_t each = state.slot_stride();
  if (slots < 1 || each == 0 || static_cast<size_t>(slots) >= std::numeric_limits<size_t>::max() / each) {
    return Error{ErrorKind::invalid, "cannot hold " + std::to_string(slots) + " states of " +
                                         std::to_string(each) + " bytes; wanted at least 1 slot"};
  }
  FULMAR_ASSIGN(Buffer memory, ops.allocate(static_cast<size_t>(slots + 1) * each));
  state.base = static_cast<std::byte*>(memory.data());
  std::unique_ptr<RingCursor[]> cursors;
  if (ring.rows > 0) cursors = std::make_unique<RingCursor[]>(static_cast<size_t>(state.slots));
  state.cursors = cursors.get();
  for (int64_t slot = 0; slot <= slots; slot++) ops.zero_slot(state, slot);
  return StatePool(ops, std::move(memory), std::move(cursors), state);
}

std::vector<std::byte> StatePool::read(int64_t slot) const {
  std::vector<std::byte> bytes(state_.layout.slot_bytes());
  ops_->read_slot(state_, slot, bytes);
  return bytes;
}

Status StatePool::write(int64_t slot, std::span<const std::byte> bytes) {
  if (bytes.size() != state_.layout.slot_bytes()) {
    return Error{ErrorKind::invalid, "a state of " + std::to_string(bytes.size()) +
                                         " bytes; this model's has " +
                                         std::to_string(state_.layout.slot_bytes())};
  }
  ops_->write_slot(state_, slot, bytes);
  return {};
}

Status StatePool::set_initial(int64_t slot, std::span<const std::vector<float>> wkv) {
  const StateLayout& layout = state_.layout;
  const auto count = static_cast<size_t>(layout.n_embd * layout.head_size);
  if (wkv.size() != static_cast<size_t>(layout.n_layer)) {
    return Error{ErrorKind::invalid, "an initial state of " + std::to_string(wkv.size()) +
                                         " layers; this model has " + std::to_string(layout.n_layer)};
  }
  std::vector<std::byte> bytes(layout.slot_bytes());
  for (size_t layer = 0; layer < wkv.size(); layer++) {
    if (wkv[layer].size() != count) {
      return Error{ErrorKind::invalid, "an initial state with " + std::to_string(wkv[layer].size()) +
                                           " numbers in layer " + std::to_string(layer) +
                                           "; this model's has " + std::to_string(count)};
    }
    from_f32(wkv[layer], layout.wkv_dtype, bytes.data() + layout.wkv_offset(static_cast<int64_t>(layer)));
  }
  ops_->write_slot(state_, slot, bytes);
  return {};
}

}  // namespace fulmar
