// Products of interleaved quantised weights (interleaved.h) with rows of input, in whole numbers. Knows
// nothing of threads.
//
// The codes of the weights, unpacked to bytes in registers, are multiplied by activations rounded to whole
// numbers of one, two or three digits to the base 128 (byte_dot-inl.h). Activations use the same group size
// as the weights: a share is the 16 or 32 that have one f32 scale. The sum of each digit's products within a
// share is exact, and everything after it is f32: 22 bits leave results as near as those of f32 throughout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

// The precision that activations are rounded to before codes multiply them; the value: number of digits.
enum class CodedActivations : uint8_t { bits8 = 1, bits15 = 2, bits22 = 3 };

// Returns whether coded_outputs multiplies the format.
bool multiplies_codes(DType dtype);

// Returns whether the processor multiplies and adds up four bytes into a 32-bit sum in one instruction
// (AVX-512 VNNI), and this build uses it.
bool has_vnni();

// Returns the floats of a rounded row of `depth` activations: of its digits, and with the factors of each
// share. Multiples of 64 bytes.
constexpr int64_t rounded_digit_floats(CodedActivations activations, int64_t depth) {
  return (static_cast<int64_t>(activations) * depth + 63) / 64 * 16;
}
constexpr int64_t rounded_row_floats(CodedActivations activations, int64_t depth) {
  const int64_t factors = (1 + static_cast<int64_t>(activations)) * (depth / 16);
  return rounded_digit_floats(activations, depth) + (factors + 15) / 16 * 16;
}

// Activations to round, or rounded.
struct RoundedRows {
  DType dtype = DType::q8_0;  // of the weights
  CodedActivations activations = CodedActivations::bits22;
  int64_t depth = 0;
  int64_t rows = 0;
};

// Rounds one of the rows that are multiplied together. `to` has room for all of them,
// rounded_row_floats each, 64-byte aligned, in the order that coded_outputs reads. A number that is not
// finite makes all outputs of its row NaN.
void round_row(const RoundedRows& rows, int64_t row, const float* in, float* to);

// out[r][o] = sum over k of weight[o][k] * in[r][k].
struct CodedProduct {
  DType dtype = DType::q8_0;
  CodedActivations activations = CodedActivations::bits22;  // as the rows were rounded
  const std::byte* weight = nullptr;                        // interleaved [out, depth], any alignment
  const float* scales = nullptr;  // beside the codes of formats that have them there, interleaved
  int64_t group = 0;
  int64_t depth = 0;
  int64_t rows = 0;
  const float* in = nullptr;  // of round_row
  float* out = nullptr;       // [rows, out]
  int64_t out_stride = 0;
};

// Computes the outputs [first, last) of every row; `first` is a multiple of kInterleavedOutputs. Order of
// summation, the same for every number of rows: share after share, each its sum of products, then the offset
// that its format may store.
void coded_outputs(const CodedProduct& product, int64_t first, int64_t last);

}  // namespace fulmar
