// Matrices transposed for activation sparsity: where most inputs of a product are zero, as after relu², the
// weights of an input lie together, so that a zero input skips them. Pure functions over bytes; not a weight
// changes, and outputs are padded with zeros to whole strips.
//
// A strip is 128 outputs. It holds its blocks one after the other: for formats with blocks the factors of the
// 128 outputs, then for each input of the block a row of 128 codes. Codes of one byte or more are in the
// order of outputs; of four bits, output o is the low and o + 64 the high nibble of byte o. Codes of five and
// six bits have their low four like that, followed by the upper bits: one of output o at bit o / 16 of byte o
// % 16, or two at bit 2 * (o / 32) of byte o % 32.
//
//   f32, f16, bf16   no factors, blocks of one input
//   i8, f8_e4m3, i4, nf4   the same, scales beside: [strip][group][128]; codes of i4 are 8 more than stored
//   q8_0, q4_0, q5_0, iq4_nl   128 scales f16, 32 rows
//   q4_1, q5_1       128 scales, 128 minima f16, 32 rows
//   q4_k, q5_k       128 d, 128 dmin f16, 8 times {128 scales, 128 minima of one byte}, 256 rows
//   q6_k             128 d f16, 16 times 128 scales of one byte, 256 rows
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

constexpr int64_t kStripOutputs = 128;

// The layout of a format's strip. block 0: the format has none.
struct StripFormat {
  int64_t block = 0;         // inputs that share factors inside
  int64_t factor_bytes = 0;  // of such a block
  int64_t row_bytes = 0;     // of one input
  int high_bits = 0;         // of a code, stored after the nibbles of a row

  constexpr int64_t block_bytes() const { return factor_bytes + block * row_bytes; }
};

constexpr StripFormat strip_format(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {1, 0, 4 * kStripOutputs};
    case DType::f16:
    case DType::bf16:
      return {1, 0, 2 * kStripOutputs};
    case DType::i8:
    case DType::f8_e4m3:
      return {1, 0, kStripOutputs};
    case DType::i4:
    case DType::nf4:
      return {1, 0, kStripOutputs / 2};
    case DType::q8_0:
      return {32, 2 * kStripOutputs, kStripOutputs};
    case DType::q4_0:
    case DType::iq4_nl:
      return {32, 2 * kStripOutputs, kStripOutputs / 2};
    case DType::q4_1:
      return {32, 4 * kStripOutputs, kStripOutputs / 2};
    case DType::q5_0:
      return {32, 2 * kStripOutputs, kStripOutputs / 8 * 5, 1};
    case DType::q5_1:
      return {32, 4 * kStripOutputs, kStripOutputs / 8 * 5, 1};
    case DType::q4_k:
      return {256, (4 + 8 * 2) * kStripOutputs, kStripOutputs / 2};
    case DType::q5_k:
      return {256, (4 + 8 * 2) * kStripOutputs, kStripOutputs / 8 * 5, 1};
    case DType::q6_k:
      return {256, (2 + 16) * kStripOutputs, kStripOutputs / 8 * 6, 2};
    default:
      return {};
  }
}

// Returns whether it can be transposed: by its format, rows of whole blocks, groups of a multiple of four.
bool can_transpose(const HostMatrix& matrix);

constexpr int64_t strips_of(int64_t outputs) { return (outputs + kStripOutputs - 1) / kStripOutputs; }

// Returns the bytes of the codes and the factors among them, and the number of scales beside them.
size_t transposed_bytes(const HostMatrix& matrix);
int64_t transposed_scales(const HostMatrix& matrix);

// Writes the strips [first, last) of a matrix; `codes` and `scales` have room for the whole matrix.
void transpose_strips(const HostMatrix& matrix, int64_t first, int64_t last, std::byte* codes, float* scales);

}  // namespace fulmar
