// Dot products of stored weights with a few rows of input: what decode of small batches runs. Knows nothing
// of threads.
#pragma once

#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

// Beyond, packing the rows pays.
constexpr int64_t kMostDotRows = 12;

// out[r][o] = sum over k of weight[o][k] * in[r][k].
struct DotProduct {
  WeightKind kind = WeightKind::f32;
  const std::byte* weight = nullptr;  // [out, depth] row-major, any alignment
  int64_t depth = 0;
  int64_t rows = 0;           // at most kMostDotRows
  const float* in = nullptr;  // [rows, depth]
  int64_t in_stride = 0;
  float* out = nullptr;  // [rows, out]
  int64_t out_stride = 0;
};

// Computes the outputs [first, last) of every row. Order of summation: lane l of a vector of L lanes sums
// k = l, l + L, l + 2L, ... (with one row, four such sums over every fourth vector, added at the end); the
// lanes are then added pairwise.
void dot_outputs(const DotProduct& product, int64_t first, int64_t last);

}  // namespace fulmar
