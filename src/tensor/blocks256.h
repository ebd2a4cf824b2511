// Super-blocks of 256 weights: q2_k, q3_k, q4_k, q5_k and q6_k.
//
// A super-block holds 16 sub-blocks of 16 weights (q2_k, q3_k, q6_k) or 8 of 32 (q4_k, q5_k). Each sub-block
// has a small integer scale and, in q2_k, q4_k and q5_k, a minimum; one or two f16 factors of the super-block
// multiply them: value = (d * scale) * code - dmin * minimum. The layout is that of the GGML file format,
// read bit for bit; any choice of scales and codes is legal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace fulmar {

constexpr int64_t kBlock256 = 256;

// A super-block, unpacked. Sub-block s covers elements [s * 256 / subs, (s + 1) * 256 / subs).
struct SuperBlock {
  float d = 0, dmin = 0;  // dmin 0: the kind has no minima
  int subs = 16;          // 8 or 16
  int16_t scale[16];      // -128..127
  uint8_t minimum[16];    // 0..63
  int8_t code[kBlock256];
};

void split_block256(DType dtype, const std::byte* block, SuperBlock& out);
// Packs what split_block256 unpacks; d and dmin are rounded to f16.
void join_block256(DType dtype, const SuperBlock& parts, std::byte* block);

// Decodes one super-block to 256 numbers, in f32 in the order of the formula.
void decode_block256(DType dtype, const std::byte* block, float* out);

// Encodes 256 finite numbers: least squares by sub-block, then codes for the rounded scales.
void encode_block256(DType dtype, const float* values, std::byte* block);

// Encodes likewise, with each squared error weighted by the importance of its value (256 of them).
void encode_block256(DType dtype, const float* values, const float* importance, std::byte* block);

}  // namespace fulmar
