// Decides what is evicted where several owners share a full resource. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fulmar {

// A thing that is kept for an owner.
struct KeptThing {
  std::string_view owner;
  int64_t size = 0;
};

// Returns the index of the one to evict among `things`, oldest first and at least one: the oldest of the
// owner that holds most. So an owner that holds no more than the average loses nothing while another one
// holds more.
size_t victim_of(std::span<const KeptThing> things);

}  // namespace fulmar
