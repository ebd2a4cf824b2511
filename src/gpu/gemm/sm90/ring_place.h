// A warp's place in a ring of stages, the stages that each slice of a segment's steps reads (sliced-K), and
// the barriers that it waits for there: pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fulmar::gpu {

// A stage, and the parity of the current round through the ring.
template <int kStages>
struct RingPlace {
  int place = 0;
  uint32_t phase = 0;
  // Moves on by at most kStages steps.
  constexpr void next(int steps = 1) {
    place += steps;
    if (place >= kStages) place -= kStages, phase ^= 1;
  }
};

// A stage's two mbarriers: filled by the producer's copies, and emptied by all consumers.
enum class StageBarrier : uint8_t { full, empty };

// Calls wait(StageBarrier, parity) for all that a consumer waits for before it reads a stage. A parity only
// distinguishes a phase from its neighbours, so a consumer must know that the previous round of the stage is
// over. It does not if another slice read the stage in that round: that slice's data may still be in flight
// while its own has already arrived. The empty barrier tells it.
template <int kSlices, class Wait>
constexpr void for_each_wait(uint32_t phase, Wait&& wait) {
  if constexpr (kSlices > 1) wait(StageBarrier::empty, phase ^ 1);
  wait(StageBarrier::full, phase);
}

// The steps of a segment that one slice multiplies: every kSlices-th. All slices meet at a segment's end.
// kSlices < the ring's stages, since a slice releases a stage after it has seen its next one full.
template <int kSlices>
class SliceSteps {
 public:
  constexpr explicit SliceSteps(int slice) : slice_(slice) {}
  constexpr int first() const { return kSlices == 1 ? 0 : slice_; }
  // Moves the ring from the segment's first step to the slice's; returns false, with the ring at the
  // segment's end, if it has none.
  template <class Ring>
  constexpr bool enter(int steps, Ring& ring) const {
    if (kSlices == 1) return true;
    ring.next(std::min(slice_, steps));
    return slice_ < steps;
  }
  // Moves on to the slice's next step; returns false, with the ring at the segment's end, after its last.
  template <class Ring>
  static constexpr bool next(int& step, int steps, Ring& ring) {
    ring.next(kSlices == 1 ? 1 : std::min(kSlices, steps - step));
    step += kSlices;
    return step < steps;
  }

 private:
  int slice_;
};

}  // namespace fulmar::gpu
