// The slots of a model, one recurrent state each; every device has the layers and heads of its stage. Which
// sequence uses which slot is decided elsewhere.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/slice.h"
#include "ops/slots.h"
#include "ranks/rank.h"

namespace fulmar {

// Reads and writes whole states in the layout of a single device, however layers are divided.
class StatePool final : public StateSlots {
 public:
  // The owner of the next `layers` layers, or of a slice of their heads; slices are consecutive.
  struct Share {
    Rank* rank;  // outlives the pool
    int64_t layers;
    Slice slice = {};
  };
  // Makes the slots, all zero states. The shares, in the model's order, are all layers of
  // `layout`. Adds a spare slot for rows that a backend pads its batches with. `ring`: without
  // rows, every step writes its states.
  static Result<StatePool> make(std::span<const Share> shares, const StateLayout& layout, int64_t slots,
                                const RingLayout& ring = {});
  // Does the same on one device, which this thread drives.
  static Result<StatePool> make(Ops& ops, const StateLayout& layout, int64_t slots,
                                const RingLayout& ring = {});
  ~StatePool() override;
  StatePool(StatePool&&) = default;
  StatePool& operator=(StatePool&&) = default;

  const StateLayout& layout() const override { return layout_; }
  const RingLayout& ring() const { return ring_; }
  int64_t slots() const { return slots_; }  // without the spare slot
  // Returns the slots as one share's device sees them.
  State view(size_t share = 0) const { return parts_[share].state; }

  void zero(int64_t slot) override;
  void copy(int64_t from, int64_t to) override;
  // Undoes a slot's last rows, as Ops::roll_back.
  void roll_back(int64_t slot, int64_t rows);
  // Saves the ring cursors of these slots; return_to_mark restores one, if a step begun since has not fed the
  // slot after all (StepInput::drawn).
  void mark(std::span<const int32_t> slots);
  void return_to_mark(int64_t slot);
  void read(int64_t slot, std::span<std::byte> out) override;
  void write(int64_t slot, std::span<const std::byte> from) override;

  std::vector<std::byte> read(int64_t slot);
  // Replaces a slot's state; fails (invalid) for bytes of another length.
  Status set(int64_t slot, std::span<const std::byte> bytes);
  // Starts a slot from a tuned state: wkv[layer] is the replayed field, [H, N, N], row = value channel; the
  // others become zero.
  Status set_initial(int64_t slot, std::span<const std::vector<float>> wkv);

 private:
  struct Holding {
    Rank* rank;
    Buffer memory;
    std::unique_ptr<RingCursor[]> cursors;  // [slots], advanced by the rank; none without rings
    std::unique_ptr<RingCursor[]> marks;    // [slots], at the last mark
    State state;
    int64_t first;  // of its layers
    Slice slice;
  };
  StatePool(const StateLayout& layout, int64_t slots, const RingLayout& ring)
      : layout_(layout), ring_(ring), slots_(slots) {}
  Status add(const Share& share, int64_t first);
  // Returns the offset of a part's layers in a whole state.
  size_t offset_of(const Holding& part) const {
    return static_cast<size_t>(part.first) * layout_.layer_bytes();
  }
  // Calls copy(field, own, whole, bytes) with the offsets of each field of each of a part's layers.
  template <class Copy>
  void for_fields(const Holding& part, const Copy& copy) const;
  // Copies a part's bytes of a state into the whole, or from it.
  void put_slice(const Holding& part, std::span<const std::byte> own, std::span<std::byte> whole) const;
  std::vector<std::byte> take_slice(const Holding& part, std::span<const std::byte> whole) const;

  StateLayout layout_;
  RingLayout ring_;
  int64_t slots_;
  std::unique_ptr<Rank> own_;
  std::vector<Holding> parts_;
};

}  // namespace fulmar
