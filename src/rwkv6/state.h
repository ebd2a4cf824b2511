// What a block of RWKV-6 keeps of a sequence from row to row.
#pragma once

#include "ops/state.h"

namespace fulmar {

constexpr FieldList kFields6 = kShiftsAndWkv;

// What replays a row of the recurrence on a head: k, v, u.
constexpr KeptRow kKeptRow6{3, false};

}  // namespace fulmar
