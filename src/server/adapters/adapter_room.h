// The decision which adapters leave a device so that another fits: pure, over plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fulmar {

// One adapter on a device.
struct HeldAdapter {
  uint64_t bytes = 0;
  uint64_t used = 0;    // when it was last wanted: larger is later
  bool in_use = false;  // by a row, or being loaded: it stays
};

struct RoomPlan {
  enum class Way : uint8_t { fits, busy, never };
  Way way = Way::fits;
  std::vector<size_t> leaving;  // where it fits: indices of those that go, longest unused first
};

// Decides who leaves so that `wanted` further bytes fit into the budget: no more than needed, the longest
// unused first, none that is in use. busy: it would fit if some in use were not; never: it does not fit
// alone.
RoomPlan plan_room(std::span<const HeldAdapter> held, uint64_t wanted, uint64_t budget);

}  // namespace fulmar
