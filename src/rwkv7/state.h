// What a block of RWKV-7 keeps of a sequence from row to row.
#pragma once

#include "ops/ring.h"

namespace fulmar {

// What replays a row of the recurrence on a head: k, v, u, kk, alpha, and S·(-kk).
constexpr KeptRow kKeptRow7{5, true};

}  // namespace fulmar
