// Where a warp stands in a ring of stages, which stages warp groups go to that share a segment's steps
// (sliced-K), and what they wait for there: pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fulmar::gpu {

// A stage, and the parity of the round that is being made of the ring.
template <int kStages>
struct RingPlace {
  int place = 0;
  uint32_t phase = 0;
  // At most kStages steps on.
  constexpr void next(int steps = 1) {
    place += steps;
    if (place >= kStages) place -= kStages, phase ^= 1;
  }
};

// A stage's two mbarriers: filled by the producer's copies, and left by all consumers.
enum class StageBarrier : uint8_t { full, empty };

// wait(StageBarrier, parity) for all that a consumer waits for before it reads a stage. A parity tells a
// phase from its neighbours alone, so who waits for a stage's round must know that the one before is over. Of
// a stage that another slice had in that round it does not: its data may still be on their way while this
// slice's came out of order. That the stage was left says so.
template <int kSlices, class Wait>
constexpr void for_each_wait(uint32_t phase, Wait&& wait) {
  if constexpr (kSlices > 1) wait(StageBarrier::empty, phase ^ 1);
  wait(StageBarrier::full, phase);
}

// The steps of a segment that a slice multiplies: every kSlices-th. All slices meet at a segment's end.
// kSlices < the ring's stages, since a slice leaves a stage after it has seen its next one full.
template <int kSlices>
class SliceSteps {
 public:
  constexpr explicit SliceSteps(int slice) : slice_(slice) {}
  constexpr int first() const { return kSlices == 1 ? 0 : slice_; }
  // Moves the ring from the segment's first step to the slice's; false, and to the segment's end: it has
  // none.
  template <class Ring>
  constexpr bool enter(int steps, Ring& ring) const {
    if (kSlices == 1) return true;
    ring.next(std::min(slice_, steps));
    return slice_ < steps;
  }
  // To the slice's next step; false, and to the segment's end: `step` was its last.
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
