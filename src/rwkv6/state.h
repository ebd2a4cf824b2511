// What a block of RWKV-6 keeps of a sequence from row to row.
#pragma once

#include "ops/ring.h"

namespace fulmar {

// What replays a row of the recurrence on a head: k, v, u.
constexpr KeptRow kKeptRow6{3, false};

}  // namespace fulmar
