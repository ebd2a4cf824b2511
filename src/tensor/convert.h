// Scalar and bulk conversion between stored float types. IEEE round to nearest even everywhere.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "tensor/format.h"

namespace fulmar {

inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
uint16_t f32_to_bf16(float value);  // NaN stays NaN
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);  // overflow becomes infinity

// Reads out.size() elements of `dtype` at `source` (any alignment) as f32: converts numbers, decodes whole
// blocks; codes whose scale lies elsewhere give their levels.
void to_f32(DType dtype, const void* source, std::span<float> out);

// Writes values as `dtype` (f32, f16 or bf16) to `target`.
void from_f32(std::span<const float> values, DType dtype, void* target);

// Packs finite numbers, a whole number of blocks, in a block format (is_block).
void encode_blocks(DType dtype, std::span<const float> values, std::byte* target);

}  // namespace fulmar
