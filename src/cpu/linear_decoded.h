// Products of interleaved (interleaved.h) or transposed weights (transposed.h) with many rows:
// sixteen outputs are decoded to f32 in cache, a part of the depth at a time, and multiplied
// by every row. Knows nothing of threads.
#pragma once

#include <cstdint>

#include "cpu/linear_dot.h"

namespace fulmar {

constexpr int64_t kDecodedOutputs = 16;  // decoded at a time; ranges of outputs begin at multiples

// Computes the outputs [first, last) of every row. Order of summation, the same for every number of rows: k
// ascending within each 256 terms, then these partial sums.
void decoded_outputs(const DotProduct& product, int64_t first, int64_t last);

}  // namespace fulmar
