// How owners share a bounded resource. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fulmar {

struct RoomBounds {
  int64_t owner;  // the most that one owner may hold
  int64_t all;    // all together
};

// Returns the most that an owner may come to hold, who holds `own` while the others together hold `others`.
// It may grow only as long as as much again stays free: however much the present owners take, there is room
// for one more.
inline int64_t room_of(int64_t own, int64_t others, const RoomBounds& bounds) {
  return std::min(bounds.owner, std::max(own, (bounds.all - others + 1) / 2));
}

}  // namespace fulmar
