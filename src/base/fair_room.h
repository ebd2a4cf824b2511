// How owners share what there is one bound on. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fulmar {

struct RoomBounds {
  int64_t owner;  // the most that one owner may hold
  int64_t all;    // all together
};

// Returns the most that an owner may come to hold, who holds `own` now and the others `others`. More than
// before only as long as that much again stays free: however many owners take what they can, the next one
// finds room.
inline int64_t room_of(int64_t own, int64_t others, const RoomBounds& bounds) {
  return std::min(bounds.owner, std::max(own, (bounds.all - others + 1) / 2));
}

}  // namespace fulmar
