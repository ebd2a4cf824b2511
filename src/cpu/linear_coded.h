// Products of interleaved quantised weights (interleaved.h) with rows of input, in whole numbers. Knows
// nothing of threads.
//
// The codes of the weights are multiplied as they are, unpacked to bytes in registers, with activations
// rounded to whole numbers of one, two or three digits to the base 128 (byte_dot-inl.h); as many activations
// share an f32 scale as meet weights with one. The sum of each digit's products within such a share is exact,
// and everything after it is f32: 22 bits leave results as near as those of f32 throughout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

// How activations are rounded in front of codes; the value is the number of digits.
enum class CodedActivations : uint8_t { bits8 = 1, bits15 = 2, bits22 = 3 };

// True for the formats that coded_outputs multiplies.
bool multiplies_codes(DType dtype);

// How a rounded row lies in memory: every digit of all activations after the other, the highest first, then
// the scales of shares, then the sums of the activations of each. A share is what 16 or 32 weights with one
// scale meet.
struct RoundedLayout {
  int64_t digit_floats = 0;  // that one digit of all activations takes; whole lines of 64 bytes
  int64_t share_floats = 0;  // that a number for each share takes; likewise

  explicit constexpr RoundedLayout(int64_t depth)
      : digit_floats((depth + 63) / 64 * 16), share_floats((depth / 16 + 15) / 16 * 16) {}
};

// Floats that one row of `depth` activations takes once it is rounded; a multiple of 64 bytes.
constexpr int64_t rounded_row_floats(CodedActivations activations, int64_t depth) {
  const RoundedLayout layout(depth);
  return static_cast<int64_t>(activations) * layout.digit_floats + 2 * layout.share_floats;
}

// Rounds one row for weights of a format; `to` is 64-byte aligned. Numbers that are not finite make all
// outputs of the row so.
void round_row(DType dtype, CodedActivations activations, const float* in, int64_t depth, float* to);

// out[r][o] = sum over k of weight[o][k] * in[r][k].
struct CodedProduct {
  DType dtype = DType::q8_0;
  CodedActivations activations = CodedActivations::bits22;  // as the rows were rounded
  const std::byte* weight = nullptr;                        // interleaved [out, depth], any alignment
  const float* scales = nullptr;  // beside the codes of formats that have them there, interleaved
  int64_t group = 0;
  int64_t depth = 0;
  int64_t rows = 0;
  const float* in = nullptr;  // [rows] of round_row, rounded_row_floats(activations, depth) apart
  float* out = nullptr;       // [rows, out]
  int64_t out_stride = 0;
};

// Computes the outputs [first, last) of every row; `first` is a multiple of kInterleavedOutputs. Order of
// summation, the same for every number of rows: share after share, its sum of products and then its offset.
void coded_outputs(const CodedProduct& product, int64_t first, int64_t last);

}  // namespace fulmar
