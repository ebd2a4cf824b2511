// The layout of quantised matrices on the device: which formats are packed for kernels that multiply from the
// codes, and where codes and scales then lie. A matrix that is not packed keeps the order of its file and is
// decoded (layout/dequantise.h).
//
// Fragments, for a matrix [out, in]: tiles of 16 outputs, pieces of 128 inputs, which are eight left operands
// of a matrix instruction (device/fragment.h). Of each of them the lane 4g + q of a warp has four inputs of
// the outputs g and g + 8 (fragment_input), 32 codes of both in all:
//   codes    [tiles][pieces][vectors of output g, then of g + 8][lanes] of 16 bytes; one vector for codes of
//            4 bits, two for those of 8
//   factors  [tiles][pieces][g][output g, then g + 8][4 groups of 32 inputs]: f16 scales; for q4_k the bytes
//            (scale, minimum)
//   supers   q4_k: [tiles][in / 256][16 outputs] (d, dmin) in f16
//   q6_k has the low four bits of its codes as codes, the scales of 16 inputs each (two bytes) as factors, d
//   in supers, and the upper two bits of its codes, [tiles][pieces][g, then g + 8][lanes] of 8 bytes, after
//   them.
// Scales beside codes stay f32 [out, in / group].
//
// Transposed, [in, out], for a matrix whose zero inputs are skipped: a row of codes for each input.
//   codes    [in][out], neighbours in the order of their outputs, the first in the lowest bits
//   factors  [in / 32][out] f16, or for q4_k the bytes (scale, minimum)
//   supers   q4_k: [in / 256][out] (d, dmin) in f16
// Scales beside codes: f32 [in / group, out].
//
// Codes are unsigned: 128 is added to those of signed bytes and 8 to signed nibbles. In fragments the eight
// nibbles of a word stand in the order 0 2 4 6 1 3 5 7 from the lowest bits on, so that a mask leaves two
// neighbours in the halves of a word; those that index a table stand in order. Of q6_k's upper bits a word
// has those of 16 codes: of code 2i at bit 2i, of code 2i + 1 at bit 16 + 2i.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tensor/format.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

// How a kernel widens a code to a number.
enum class CodeKind : uint8_t {
  none,     // not packed
  bytes,    // a signed byte times a scale: q8_0, i8
  float8,   // E4M3 times a scale: f8_e4m3
  nibbles,  // a signed nibble times a scale: q4_0, i4
  levels,   // one of 16 levels times a scale: iq4_nl, nf4
  affine,   // a nibble times a scale less a minimum: q4_k
  six,      // six bits times a scale: q6_k; as fragments only
};

constexpr CodeKind code_kind_of(DType dtype) {
  switch (dtype) {
    case DType::q8_0:
    case DType::i8:
      return CodeKind::bytes;
    case DType::f8_e4m3:
      return CodeKind::float8;
    case DType::q4_0:
    case DType::i4:
      return CodeKind::nibbles;
    case DType::iq4_nl:
    case DType::nf4:
      return CodeKind::levels;
    case DType::q4_k:
      return CodeKind::affine;
    case DType::q6_k:
      return CodeKind::six;
    default:
      return CodeKind::none;
  }
}

// Returns the bits of a code, without q6_k's upper bits.
constexpr int bits_of(CodeKind kind) { return kind == CodeKind::bytes || kind == CodeKind::float8 ? 8 : 4; }

constexpr int kPackedOuts = 16, kPackedInputs = 128;  // of a tile and of a piece
constexpr int kPackedGroup = 32, kPackedSuper = 256;  // inputs that share an f16 scale; q4_k's super-block
constexpr int kPieceGroups = kPackedInputs / kPackedGroup;
// Returns the input within a piece that code i of the lane's 32 belongs to.
constexpr int fragment_input(int lane, int i) { return i / 4 * 16 + lane % 4 * 2 + i % 2 + i % 4 / 2 * 8; }
constexpr int kPackedValueOuts = 128;    // outputs of a transposed matrix: a multiple of these
constexpr int kPackedValueInputs = 512;  // and inputs

// Offsets in bytes of the parts of a packed matrix, and its length.
struct PackedParts {
  size_t factors = 0, supers = 0, upper = 0, bytes = 0;
};

// Returns whether a matrix of this shape can be packed as fragments: `group` as in Weight.
constexpr bool suits_packing(DType dtype, int64_t in, int64_t group) {
  const CodeKind kind = code_kind_of(dtype);
  if (kind == CodeKind::none || in <= 0 || in % kPackedInputs != 0) return false;
  if (is_block(dtype)) return in % format_of(dtype).block == 0;
  return group == in || (group >= kPackedGroup && (group & (group - 1)) == 0 && in % group == 0);
}

// Returns whether it can be packed transposed.
constexpr bool suits_packing_transposed(DType dtype, int64_t out, int64_t in, int64_t group) {
  return code_kind_of(dtype) != CodeKind::six && suits_packing(dtype, in, group) &&
         out % kPackedValueOuts == 0 && in % kPackedValueInputs == 0;
}

// Returns a quantised matrix's layout on the device. skips_zeros: by input, where that can be packed.
constexpr WeightLayout code_layout(DType dtype, int64_t out, int64_t in, int64_t group, bool skips_zeros) {
  if (skips_zeros && suits_packing_transposed(dtype, out, in, group)) return WeightLayout::packed_columns;
  return suits_packing(dtype, in, group) ? WeightLayout::fragments : WeightLayout::rows;
}

constexpr bool is_packed(const Weight& weight) {
  return weight.layout == WeightLayout::fragments || weight.layout == WeightLayout::packed_columns;
}
constexpr CodeKind packed_kind(const Weight& weight) {
  return is_packed(weight) ? code_kind_of(weight.dtype) : CodeKind::none;
}

// Returns whether E4M3 codes with a scale a row suit the GEMM library (library_fp8): it needs both operands
// K-major and their sizes in whole vectors of 16 bytes.
constexpr bool suits_float8(DType dtype, int64_t out, int64_t in, int64_t group) {
  constexpr int64_t kMostIn = 32768;  // quantise_inputs keeps a row in registers
  return dtype == DType::f8_e4m3 && group == in && in <= kMostIn && out % 16 == 0 && in % 16 == 0;
}
constexpr bool is_float8_rows(const Weight& weight) { return weight.layout == WeightLayout::float8_rows; }

constexpr PackedParts packed_parts(DType dtype, int64_t out, int64_t in, bool transposed) {
  const CodeKind kind = code_kind_of(dtype);
  const int64_t outs = transposed ? out : (out + kPackedOuts - 1) / kPackedOuts * kPackedOuts;
  PackedParts parts;
  parts.factors = static_cast<size_t>(outs * in * bits_of(kind) / 8);
  parts.supers = parts.factors;
  if (is_block(dtype)) parts.supers += static_cast<size_t>(outs * (in / kPackedGroup)) * 2;
  const bool supers = kind == CodeKind::affine || kind == CodeKind::six;
  parts.upper = parts.supers + (supers ? static_cast<size_t>(outs * (in / kPackedSuper)) * 4 : 0);
  parts.bytes = parts.upper + (kind == CodeKind::six ? static_cast<size_t>(outs * in / 4) : 0);
  return parts;
}

}  // namespace fulmar::gpu
