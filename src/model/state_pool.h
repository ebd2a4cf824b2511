// The slots of a model: where the recurrent states of sequences live, each device with those of its layers.
// Who uses which slot is not decided here.
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

// Reads and writes whole states in the layout of a single device, whatever holds which layers.
class StatePool final : public Slots {
 public:
  // Who has the next so many layers, or a slice of their heads: slices follow one another.
  struct Share {
    Rank* rank;  // outlives the pool
    int64_t layers;
    Slice slice = {};
  };
  // The shares, in the model's order, are all layers of `layout`. All slots start as zero states. A spare one
  // is added for rows that a backend pads its batches with. `ring`: without rows, every step writes its
  // states.
  static Result<StatePool> make(std::span<const Share> shares, const StateLayout& layout, int64_t slots,
                                const RingLayout& ring = {});
  // All on one device, which this thread drives.
  static Result<StatePool> make(Ops& ops, const StateLayout& layout, int64_t slots,
                                const RingLayout& ring = {});
  ~StatePool() override;
  StatePool(StatePool&&) = default;
  StatePool& operator=(StatePool&&) = default;

  const StateLayout& layout() const override { return layout_; }
  const RingLayout& ring() const { return ring_; }
  int64_t slots() const { return slots_; }  // without the spare one
  // What the device of one share sees.
  State view(size_t share = 0) const { return parts_[share].state; }

  void zero(int64_t slot) override;
  void copy(int64_t from, int64_t to) override;
  // As Ops::roll_back.
  void roll_back(int64_t slot, int64_t rows);
  // Behind a mark the rings of these slots can be taken to be as they were at it, where a step that was begun
  // since has not fed them after all (StepInput::drawn).
  void mark(std::span<const int32_t> slots);
  void return_to_mark(int64_t slot);
  void read(int64_t slot, std::span<std::byte> out) override;
  void write(int64_t slot, std::span<const std::byte> from) override;

  std::vector<std::byte> read(int64_t slot);
  // Refuses bytes of another length.
  Status set(int64_t slot, std::span<const std::byte> bytes);
  // Starts a slot from a tuned state: wkv[layer] is [H, N, N], row = value channel; both shifts become zero.
  Status set_initial(int64_t slot, std::span<const std::vector<float>> wkv);

 private:
  struct Holding {
    Rank* rank;
    Buffer memory;
    std::unique_ptr<RingCursor[]> cursors;  // of each slot, moved on by the rank; none without rings
    std::unique_ptr<RingCursor[]> marks;    // of each slot, as at its last mark
    State state;
    int64_t first;  // of its layers
    Slice slice;
  };
  StatePool(const StateLayout& layout, int64_t slots, const RingLayout& ring)
      : layout_(layout), ring_(ring), slots_(slots) {}
  Status add(const Share& share, int64_t first);
  // Where a whole state has the layers of a part.
  size_t offset_of(const Holding& part) const {
    return static_cast<size_t>(part.first) * layout_.layer_bytes();
  }
  // What a part has of a state, to and from the whole.
  void put_slice(const Holding& part, std::span<const std::byte> own, std::span<std::byte> whole) const;
  std::vector<std::byte> take_slice(const Holding& part, std::span<const std::byte> whole) const;

  StateLayout layout_;
  RingLayout ring_;
  int64_t slots_;
  std::unique_ptr<Rank> own_;
  std::vector<Holding> parts_;
};

}  // namespace fulmar
