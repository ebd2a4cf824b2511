#include "server/adapters/adapter_room.h"

#include <algorithm>

namespace fulmar {

RoomPlan plan_room(std::span<const HeldAdapter> held, uint64_t wanted, uint64_t budget) {
  if (wanted > budget) return {.way = RoomPlan::Way::never, .leaving = {}};
  uint64_t taken = 0;
  std::vector<size_t> idle;
  for (size_t i = 0; i < held.size(); i++) {
    taken += held[i].bytes;
    if (!held[i].in_use) idle.push_back(i);
  }
  std::sort(idle.begin(), idle.end(), [&](size_t a, size_t b) { return held[a].used < held[b].used; });
  RoomPlan plan;
  for (const size_t i : idle) {
    if (taken <= budget - wanted) break;
    taken -= held[i].bytes;
    plan.leaving.push_back(i);
  }
  if (taken <= budget - wanted) return plan;
  return {.way = RoomPlan::Way::busy, .leaving = {}};
}

}  // namespace fulmar
