// What a block of RWKV-7 and RWKV-7a keeps of a sequence from row to row.
#pragma once

#include "ops/state.h"

namespace fulmar {

constexpr FieldList kFields7 = kShiftsAndWkv;

// What replays a row of the recurrence on a head: k, v, u, kk, alpha, and S·(-kk).
constexpr KeptRow kKeptRow7{5, true};

}  // namespace fulmar
