// Dot products of quantised weights with very few rows, in whole numbers: what decode of one to three
// sequences runs. Knows nothing of threads.
//
// The codes of the weights are multiplied as they lie in memory, widened in registers, with activations
// rounded to 22 bits, in two parts of 16 and 6: 256 of them have one f32 scale, and as many weights as share
// a scale another. Sums of their products are exact, and everything after them is f32, so that results are as
// near as those of f32 throughout. 16 bits alone take two thirds of the time, and move the logits of a model
// that carries long sums by 2e-4 of their deviation; 8 bits would by 1e-1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

// How activations are rounded in front of codes.
enum class CodedActivations : uint8_t { bits22, bits16 };

// True where coded_outputs can multiply `weight`: a format with a loader, rows of whole blocks.
bool multiplies_codes(const Weight& weight);

// Floats that one row of `depth` activations takes once it is rounded; a multiple of 64 bytes.
size_t rounded_row_floats(int64_t depth);

// Rounds one row for weights of a format; `to` is 64-byte aligned. Numbers that are not finite make all
// outputs of the row so.
void round_row(DType dtype, CodedActivations activations, const float* in, int64_t depth, float* to);

// out[r][o] = sum over k of weight[o][k] * in[r][k].
struct CodedProduct {
  DType dtype = DType::q8_0;
  CodedActivations activations = CodedActivations::bits22;  // as the rows were rounded
  const std::byte* weight = nullptr;  // [out, depth] row-major in whole blocks, any alignment
  const float* scales = nullptr;      // of formats with scales beside their codes, as in Weight
  int64_t group = 0;
  int64_t depth = 0;
  int64_t rows = 0;
  const float* in = nullptr;  // [rows] of round_row, rounded_row_floats(depth) apart
  float* out = nullptr;       // [rows, out]
  int64_t out_stride = 0;
};

// Computes the outputs [first, last) of every row. Order of summation, the same for every number of rows: in
// lane l of L lanes of f32 the whole sums of products 2l, 2l + 1 of every 2L, share after share of 256
// weights, and these in turn; lane l of the offsets' sums takes shares l, l + L, ...; then the lanes.
void coded_outputs(const CodedProduct& product, int64_t first, int64_t last);

}  // namespace fulmar
