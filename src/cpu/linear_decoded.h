// Products of interleaved quantised weights (interleaved.h) with many rows: two tiles of outputs are decoded
// to f32 in cache, a part of the depth at a time, and multiplied with every row. Knows nothing of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

constexpr int64_t kDecodedOutputs = 16;  // decoded at once; pieces of outputs begin at multiples

// out[r][o] = sum over k of weight[o][k] * in[r][k].
struct DecodedProduct {
  DType dtype = DType::q8_0;
  const std::byte* weight = nullptr;  // interleaved [out, depth], any alignment
  const float* scales = nullptr;      // beside the codes of formats that have them there, interleaved
  int64_t group = 0;
  int64_t depth = 0;
  int64_t rows = 0;
  const float* in = nullptr;  // [rows, depth]
  int64_t in_stride = 0;
  float* out = nullptr;  // [rows, out]
  int64_t out_stride = 0;
};

// Computes the outputs [first, last) of every row. Order of summation, the same for every number of rows: k
// ascending within each 256 terms, these partial sums in turn.
void decoded_outputs(const DecodedProduct& product, int64_t first, int64_t last);

}  // namespace fulmar
