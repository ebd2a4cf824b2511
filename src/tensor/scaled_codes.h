// Codes whose scales are stored separately: int8, int4, FP8 E4M3 and NF4.
//
// value = level(code) * scale, in f32. A scale serves a group of weights: a part of a row, a row or a matrix,
// as the caller says. Sources: for NF4 Dettmers and others, "QLoRA" (2023), with the layout of bitsandbytes;
// for FP8 Micikevicius and others, "FP8 formats for deep learning" (2022), in the form without infinities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/format.h"

namespace fulmar {

// The 16 levels of NF4, ascending.
inline constexpr float kNf4Levels[16] = {-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};

constexpr float kLargestF8 = 448;

// Converts a code; 0x7f and 0xff are NaN.
float f8_e4m3_to_f32(uint8_t code);
// Returns the nearest code, ties to even; beyond +-448 the largest code; NaN stays NaN.
uint8_t f32_to_f8_e4m3(float value);

// Returns the scale at which the largest magnitude of a group gets the largest code: that magnitude divided
// by 127 (i8), 7 (i4), 448 (f8_e4m3) or 1 (nf4). 0 for a group of zeros.
float scale_of_group(DType dtype, std::span<const float> values);

// Returns the scale, among several around scale_of_group, whose codes have the least sum of squared errors,
// each weighted by the importance of its value.
float search_scale_of_group(DType dtype, std::span<const float> values, std::span<const float> importance);

// Writes the codes of finite numbers at a scale: the nearest, ties to even (nf4: to the lower level).
// values.size() is even for formats with two codes a byte.
void encode_group(DType dtype, std::span<const float> values, float scale, std::byte* codes);
void decode_group(DType dtype, const std::byte* codes, float scale, std::span<float> out);

// ---- double quantisation of NF4 scales, as bitsandbytes does it

// A scale is map[index] * block_scale + offset; a block has 256 scales.
struct NestedScales {
  std::vector<uint8_t> index;
  std::vector<float> block_scale;  // one for every 256 indices, the last block may be short
  std::vector<float> map;          // 256 levels, ascending
  float offset = 0;
};
constexpr size_t kNestedBlock = 256;

// Returns the signed dynamic map: 256 levels from -0.99296875 to 1. Files bring their own, which may differ
// in the last bits; readers use the file's.
std::vector<float> dynamic_map();
NestedScales nest_scales(std::span<const float> scales, std::vector<float> map);
std::vector<float> unnest_scales(const NestedScales& nested);

}  // namespace fulmar
