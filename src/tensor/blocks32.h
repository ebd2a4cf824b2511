// Blocks of 32 weights with their scale inside: q4_0, q4_1, q5_0, q5_1, q8_0 and iq4_nl.
//
// Layout of a block, in order: d f16; m f16 (q4_1, q5_1); the fifth bits of all 32 codes as one 32-bit number
// (q5_0, q5_1); the codes: 32 bytes (q8_0), or 16 whose low nibbles are elements 0..15 and whose high nibbles
// are elements 16..31. Source: the GGML file format, which this reads and writes bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace fulmar {

constexpr int64_t kBlock32 = 32;

// The levels of iq4_nl, ascending.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// Decodes one block to 32 numbers: scale times code in f32, then plus the minimum.
void decode_block32(DType dtype, const std::byte* block, float* out);

// Encodes 32 finite numbers as one block. Except for iq4_nl the bytes are those that ggml writes: codes are
// found with the scale in f32, then the scale is rounded to f16.
void encode_block32(DType dtype, const float* values, std::byte* block);

// Encodes likewise, but searches for the scale with the least sum of squared errors, each weighted by the
// importance of its value (32 of them). Not for q8_0.
void encode_block32(DType dtype, const float* values, const float* importance, std::byte* block);

}  // namespace fulmar
