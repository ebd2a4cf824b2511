// Times the all-reduces of tensor parallelism alone, each way of each size, as a recorded step runs them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "app/bench/bench_model.h"

namespace fulmar {

// Of the ranks of one group, rows `width` wide in the activation type; one line for each size and way, named
// "sum", which is the way that a model takes, or "sum, WAY". Devices that do not reach each other's memory
// have one way. Fails where memory does not suffice.
Result<std::vector<IslandLine>> bench_sums(std::span<Ops* const> group, int64_t width);

}  // namespace fulmar
