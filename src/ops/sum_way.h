// All-reduce algorithms between devices that write into each other's memory.
#pragma once

#include <cstdint>

namespace fulmar {

// Sums are rounded at most once, in the type of the addends.
enum class SumWay : uint8_t {
  flagged,   // everything to every rank, each number beside a flag that says it has arrived
  one_shot,  // everything to every rank, in pieces with a flag after each
  two_shot,  // reduce-scatter (each rank adds up its part), then all-gather
  library,   // the vendor's library, as a baseline
};

}  // namespace fulmar
