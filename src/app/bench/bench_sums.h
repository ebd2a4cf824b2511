// Times the all-reduces of tensor parallelism alone, by each algorithm and size, as in a captured step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "app/bench/bench_model.h"

namespace fulmar {

// Measures the ranks of one group, rows `width` wide in the activation type; one line per size and
// algorithm, named "sum", the one that a model uses, or "sum, WAY". Devices without peer access have a
// single one. Fails without enough memory.
Result<std::vector<IslandLine>> bench_sums(std::span<Ops* const> group, int64_t width);

}  // namespace fulmar
