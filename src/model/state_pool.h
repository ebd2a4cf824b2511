// The slots of one backend: where the recurrent states of sequences live. Who uses which slot is not decided
// here.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/ops.h"

namespace fulmar {

class StatePool {
 public:
  // All slots start as zero states. A spare one is added for rows that a backend pads its batches with.
  // `ring`: without rows, every step writes its states.
  static Result<StatePool> make(Ops& ops, const StateLayout& layout, int64_t slots,
                                const RingLayout& ring = {});

  State view() const { return state_; }
  const StateLayout& layout() const { return state_.layout; }
  int64_t slots() const { return state_.slots - 1; }  // without the spare one

  void zero(int64_t slot) { ops_->zero_slot(state_, slot); }
  void copy(int64_t from, int64_t to) { ops_->copy_slot(state_, from, to); }
  // As Ops::roll_back.
  void roll_back(int64_t slot, int64_t rows) { ops_->roll_back(state_, slot, rows); }
  // The bytes of a slot, laid out as StateLayout says; read waits for the device.
  std::vector<std::byte> read(int64_t slot) const;
  // Refuses bytes of another length.
  Status write(int64_t slot, std::span<const std::byte> bytes);

  // Starts a slot from a tuned state: wkv[layer] is [H, N, N], row = value channel; both shifts become zero.
  Status set_initial(int64_t slot, std::span<const std::vector<float>> wkv);

 private:
  StatePool(Ops& ops, Buffer memory, std::unique_ptr<RingCursor[]> cursors, State state)
      : ops_(&ops), memory_(std::move(memory)), cursors_(std::move(cursors)), state_(state) {}

  Ops* ops_;
  Buffer memory_;
  std::unique_ptr<RingCursor[]> cursors_;  // of each slot; none without rings
  State state_;
};

}  // namespace fulmar
