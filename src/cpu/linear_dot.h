// Dot products of stored weights with a few rows of input, for decode of small
// batches. Knows nothing of threads.
#pragma once

#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

// out[r][o] = sum over k of weight[o][k] * in[r][k].
struct DotProduct {
  DType dtype = DType::f32;
  const std::byte* weight = nullptr;  // [out, depth] row-major, any alignment
  const float* scales = nullptr;      // of formats with scales beside their codes, as in Weight
  int64_t group = 0;
  int64_t depth = 0;
  int64_t rows = 0;
  const float* in = nullptr;  // [rows, depth]
  int64_t in_stride = 0;
  float* out = nullptr;  // [rows, out]
  int64_t out_stride = 0;
  bool one_order = false;   // adds a single row's terms in the order of several rows
  bool transposed = false;  // the weights; for decoded_outputs
};

// Computes the outputs [first, last) of every row. Order of summation with one row, unless one_order
// is set: lane l of a vector of L lanes sums k = l, l + L, l + 2L, ... in four sums over every
// fourth vector, which are added at the end, then the lanes. With more rows, the same for every
// number of them: the lanes' sums over each 1,024 terms, then the lanes of each, then these parts.
// Quantised weights always use the latter order.
void dot_outputs(const DotProduct& product, int64_t first, int64_t last);

}  // namespace fulmar
