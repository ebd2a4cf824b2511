// Ways of an all-reduce between devices that write into each other's memory.
#pragma once

#include <cstdint>

namespace fulmar {

// Sums are rounded once at most, in the type of the addends.
enum class SumWay : uint8_t {
  flagged,   // everything to everybody, each number beside a flag that says it has come
  one_shot,  // everything to everybody, in pieces with a flag behind each
  two_shot,  // to each rank the part that it adds up (reduce-scatter), and sums to all (all-gather)
  library,   // by the vendor's library, to compare with
};

}  // namespace fulmar
