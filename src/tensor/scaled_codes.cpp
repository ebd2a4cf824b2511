#include "tensor/scaled_codes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/format.h"
#include "tensor/scale_search.h"

namespace fulmar {

namespace {

constexpr int kF8Mantissa = 3, kF8Bias = 7;
constexpr uint8_t kF8Nan = 0x7f;

float largest_level(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return 127;
    case DType::i4:
      return 7;
    case DType::f8_e4m3:
      return kLargestF8;
    case DType::nf4:
      return 1;
    default:
      FULMAR_CHECK(false, "no codes with scales beside them");
  }
  return 1;
}

// Returns the index of the nearest of ascending levels; on a tie the lower.
size_t nearest_level(std::span<const float> levels, float x) {
  size_t low = 0, high = levels.size() - 1;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (x > (levels[middle] + levels[middle + 1]) / 2) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

int rounded(float x, float most) { return static_cast<int>(std::clamp(std::rint(x), -most, most)); }

float decode_f8(uint8_t code) {
  const int exponent = code >> kF8Mantissa & 15, mantissa = code & 7;
  const float size = exponent == 0
                         ? std::ldexp(static_cast<float>(mantissa), 1 - kF8Bias - kF8Mantissa)
                         : std::ldexp(static_cast<float>(8 + mantissa), exponent - kF8Bias - kF8Mantissa);
  const float value = (code & 0x7f) == kF8Nan ? NAN : size;
  return (code & 0x80) != 0 ? -value : value;
}

const std::array<float, 256>& f8_table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> made;
    for (size_t i = 0; i < made.size(); i++) made[i] = decode_f8(static_cast<uint8_t>(i));
    return made;
  }();
  return table;
}

}  // namespace

float f8_e4m3_to_f32(uint8_t code) { return f8_table()[code]; }

uint8_t f32_to_f8_e4m3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | kF8Nan;
  const float size = std::min(std::abs(value), kLargestF8);
  int exponent = 1 - kF8Bias;  // of zero and subnormals
  if (size >= std::ldexp(1.0f, exponent)) exponent = std::ilogb(size);
  // 8..16 eighths of the power of two, or 0..8 below the smallest normal; a carry runs into the exponent.
  const int eighths = static_cast<int>(std::rint(std::ldexp(size, kF8Mantissa - exponent)));
  return sign | static_cast<uint8_t>((exponent + kF8Bias - 1) * 8 + eighths);
}

float scale_of_group(DType dtype, std::span<const float> values) {
  if (values.empty()) return 0;
  return std::abs(signed_extreme(values.data(), static_cast<int64_t>(values.size()))) / largest_level(dtype);
}

void encode_group(DType dtype, std::span<const float> values, float scale, std::byte* codes) {
  const float reciprocal = inverse(scale), most = largest_level(dtype);
  const auto nibble = [&](size_t i) {
    const float x = values[i] * reciprocal;
    return dtype == DType::nf4 ? static_cast<int>(nearest_level(kNf4Levels, x)) : rounded(x, most) & 15;
  };
  switch (dtype) {
    case DType::i8:
      for (size_t i = 0; i < values.size(); i++) {
        codes[i] = static_cast<std::byte>(rounded(values[i] * reciprocal, most));
      }
      return;
    case DType::f8_e4m3:
      for (size_t i = 0; i < values.size(); i++) {
        codes[i] = static_cast<std::byte>(f32_to_f8_e4m3(values[i] * reciprocal));
      }
      return;
    default:
      for (size_t i = 0; i + 1 < values.size(); i += 2) {
        const int first = nibble(i), second = nibble(i + 1);
        codes[i / 2] =
            static_cast<std::byte>(dtype == DType::nf4 ? first << 4 | second : second << 4 | first);
      }
  }
}

void decode_group(DType dtype, const std::byte* codes, float scale, std::span<float> out) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(codes[i]); };
  switch (dtype) {
    case DType::i8:
      for (size_t i = 0; i < out.size(); i++)
        out[i] = static_cast<float>(static_cast<int8_t>(byte(i))) * scale;
      return;
    case DType::f8_e4m3:
      for (size_t i = 0; i < out.size(); i++) out[i] = f8_table()[byte(i)] * scale;
      return;
    case DType::nf4:
      for (size_t i = 0; i + 1 < out.size(); i += 2) {
        out[i] = kNf4Levels[byte(i / 2) >> 4] * scale;
        out[i + 1] = kNf4Levels[byte(i / 2) & 15] * scale;
      }
      return;
    case DType::i4:
      for (size_t i = 0; i + 1 < out.size(); i += 2) {  // the arithmetic shift brings the sign along
        out[i] = static_cast<float>(static_cast<int8_t>(byte(i / 2) << 4) >> 4) * scale;
        out[i + 1] = static_cast<float>(static_cast<int8_t>(byte(i / 2)) >> 4) * scale;
      }
      return;
    default:
      FULMAR_CHECK(false, "no codes with scales beside them");
  }
}

float search_scale_of_group(DType dtype, std::span<const float> values, std::span<const float> importance) {
  constexpr int kTries = 24;
  constexpr float kMost = 1.1f, kStep = 0.025f;  // shares of the scale that reaches the largest magnitude
  const float whole = scale_of_group(dtype, values);
  std::vector<std::byte> codes(bytes_for(dtype, static_cast<int64_t>(values.size())));
  std::vector<float> levels(values.size());
  double best = -1, scale = whole;
  for (int t = 0; t < kTries; t++) {
    encode_group(dtype, values, whole * (kMost - kStep * static_cast<float>(t)), codes.data());
    decode_group(dtype, codes.data(), 1, levels);
    double cross = 0, square = 0;  // as in scale_search.cpp
    for (size_t i = 0; i < values.size(); i++) {
      const double counted = static_cast<double>(importance[i]) * static_cast<double>(levels[i]);
      cross += counted * static_cast<double>(values[i]);
      square += counted * static_cast<double>(levels[i]);
    }
    if (square <= 0 || cross * cross / square <= best) continue;
    best = cross * cross / square;
    scale = cross / square;
  }
  return static_cast<float>(scale);
}

std::vector<float> dynamic_map() {
  constexpr int kDecades = 7;
  std::vector<float> map = {0, 1};
  float decade = 1e-6f;
  for (int i = 0; i < kDecades; i++, decade = static_cast<float>(std::pow(10.0, i - kDecades + 1))) {
    const int steps = 1 << i;
    const auto edge = [&](int k) { return static_cast<float>(0.1 + 0.9 * k / steps); };
    for (int k = 0; k < steps; k++) {
      const float level = decade * ((edge(k) + edge(k + 1)) / 2);
      map.push_back(level);
      map.push_back(-level);
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}

NestedScales nest_scales(std::span<const float> scales, std::vector<float> map) {
  FULMAR_CHECK(map.size() == 256 && !scales.empty());
  NestedScales nested;
  nested.map = std::move(map);
  double sum = 0;
  for (const float scale : scales) sum += static_cast<double>(scale);
  nested.offset = static_cast<float>(sum / static_cast<double>(scales.size()));
  for (size_t first = 0; first < scales.size(); first += kNestedBlock) {
    const auto block = scales.subspan(first, std::min(kNestedBlock, scales.size() - first));
    float most = 0;
    for (const float scale : block) most = std::max(most, std::abs(scale - nested.offset));
    nested.block_scale.push_back(most);
    const float reciprocal = inverse(most);
    for (const float scale : block) {
      const size_t index = nearest_level(nested.map, (scale - nested.offset) * reciprocal);
      nested.index.push_back(static_cast<uint8_t>(index));
    }
  }
  return nested;
}

std::vector<float> unnest_scales(const NestedScales& nested) {
  std::vector<float> scales(nested.index.size());
  for (size_t i = 0; i < scales.size(); i++) {
    scales[i] = nested.map[nested.index[i]] * nested.block_scale[i / kNestedBlock] + nested.offset;
  }
  return scales;
}

}  // namespace fulmar
