#include "cache/fair_eviction.h"

#include <unordered_map>

namespace fulmar {

size_t victim_of(std::span<const KeptThing> things) {
  std::unordered_map<std::string_view, int64_t> held;
  for (const KeptThing& thing : things) held[thing.owner] += thing.size;
  size_t next = 0;
  for (size_t i = 1; i < things.size(); ++i) {
    if (held[things[i].owner] > held[things[next].owner]) next = i;
  }
  return next;
}

}  // namespace fulmar
