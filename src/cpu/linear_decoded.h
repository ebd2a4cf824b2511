// Products of interleaved quantised weights (interleaved.h) with many rows: two tiles of outputs are decoded
// to f32 in cache, a part of the depth at a time, and multiplied with every row. Knows nothing of threads.
#pragma once

#include <cstdint>

#include "cpu/linear_dot.h"

namespace fulmar {

constexpr int64_t kDecodedOutputs = 16;  // decoded at once; pieces of outputs begin at multiples

// Computes the outputs [first, last) of every row; weight and scales lie interleaved. Order of summation, the
// same for every number of rows: k ascending within each 256 terms, these partial sums in turn.
void decoded_outputs(const DotProduct& product, int64_t first, int64_t last);

}  // namespace fulmar
