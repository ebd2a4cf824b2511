// Who gives way where several owners share a room that is full. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fulmar {

// Something that is kept for an owner.
struct KeptThing {
  std::string_view owner;
  int64_t size = 0;
};

// Returns which of them goes first, the oldest being first in the list and at least one: the oldest of the
// owner that holds most. So nothing of an owner that holds no more than the average goes while another one
// holds more.
size_t next_to_go(std::span<const KeptThing> things);

}  // namespace fulmar
