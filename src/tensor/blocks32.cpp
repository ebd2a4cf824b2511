#include "tensor/blocks32.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/convert.h"
#include "tensor/scale_search.h"

namespace fulmar {

namespace {

constexpr int kHalf = kBlock32 / 2;

float f16_at(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return f16_to_f32(bits);
}

void put_f16(float value, std::byte* to) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

// The differences among the four formats with evenly spaced levels.
struct Even {
  int top;           // the largest code
  bool has_minimum;  // value = d * code + m; otherwise d * (code - (top + 1) / 2)

  bool fifth_bits() const { return top == 31; }
  int fifth_at() const { return has_minimum ? 4 : 2; }
  int codes_at() const { return fifth_at() + (fifth_bits() ? 4 : 0); }
};

Even even_of(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
      return {15, false};
    case DType::q4_1:
      return {15, true};
    case DType::q5_0:
      return {31, false};
    case DType::q5_1:
      return {31, true};
    default:
      FULMAR_CHECK(false, "no blocks of 32 evenly spaced levels");
  }
  return {};
}

void decode_nibbles(const std::byte* codes, uint8_t* out) {
  for (int i = 0; i < kHalf; i++) {
    out[i] = static_cast<uint8_t>(codes[i]) & 15;
    out[i + kHalf] = static_cast<uint8_t>(codes[i]) >> 4;
  }
}

void encode_nibbles(const uint8_t* codes, std::byte* out) {
  for (int i = 0; i < kHalf; i++) {
    out[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + kHalf] & 15) << 4);
  }
}

void decode_even(const Even& even, const std::byte* block, float* out) {
  uint8_t codes[kBlock32];
  decode_nibbles(block + even.codes_at(), codes);
  if (even.fifth_bits()) {
    uint32_t fifth;
    std::memcpy(&fifth, block + even.fifth_at(), sizeof(fifth));
    for (int i = 0; i < kBlock32; i++) codes[i] |= static_cast<uint8_t>((fifth >> i & 1) << 4);
  }
  const float d = f16_at(block);
  if (even.has_minimum) {
    const float m = f16_at(block + 2);
    for (int i = 0; i < kBlock32; i++) out[i] = d * static_cast<float>(codes[i]) + m;
  } else {
    const int middle = (even.top + 1) / 2;
    for (int i = 0; i < kBlock32; i++) out[i] = d * static_cast<float>(codes[i] - middle);
  }
}

// Encodes at a scale: the nearest codes, or x / scale + shift without its fraction.
void encode_even_codes(const Even& even, const float* values, float low, float scale, float shift,
                       std::byte* block) {
  const float reciprocal = inverse(scale);
  uint8_t codes[kBlock32];
  uint32_t fifth = 0;
  for (int i = 0; i < kBlock32; i++) {
    const int code = static_cast<int>((values[i] - low) * reciprocal + shift);
    codes[i] = static_cast<uint8_t>(std::clamp(code, 0, even.top));
    fifth |= static_cast<uint32_t>(codes[i] >> 4) << i;
  }
  if (even.fifth_bits()) std::memcpy(block + even.fifth_at(), &fifth, sizeof(fifth));
  encode_nibbles(codes, block + even.codes_at());
}

void encode_even(const Even& even, const float* values, std::byte* block) {
  const int middle = (even.top + 1) / 2;
  float d, low = 0, shift;
  if (even.has_minimum) {
    low = *std::min_element(values, values + kBlock32);
    d = (*std::max_element(values, values + kBlock32) - low) / static_cast<float>(even.top);
    shift = 0.5f;
    put_f16(low, block + 2);
  } else {  // the element of largest magnitude takes code 0, so that d may be negative
    d = signed_extreme(values, kBlock32) / static_cast<float>(-middle);
    shift = static_cast<float>(middle) + 0.5f;
  }
  put_f16(d, block);
  encode_even_codes(even, values, low, d, shift, block);
}

// Encodes with a scale and a minimum found by search, and with codes for their rounded values.
void encode_even(const Even& even, const float* values, const float* importance, std::byte* block) {
  static constexpr ScaleTries kTries{0.9f, 19};
  const int middle = (even.top + 1) / 2;
  if (even.has_minimum) {
    const Affine wanted = search_affine(values, importance, kBlock32, even.top, 0);
    put_f16(wanted.scale, block);
    put_f16(-wanted.least, block + 2);
    encode_even_codes(even, values, f16_at(block + 2), f16_at(block), 0.5f, block);
  } else {
    put_f16(search_even_scale(values, importance, kBlock32, middle, kTries), block);
    encode_even_codes(even, values, 0, f16_at(block), static_cast<float>(middle) + 0.5f, block);
  }
}

void decode_q8_0(const std::byte* block, float* out) {
  const float d = f16_at(block);
  int8_t codes[kBlock32];
  std::memcpy(codes, block + 2, sizeof(codes));
  for (int i = 0; i < kBlock32; i++) out[i] = d * static_cast<float>(codes[i]);
}

void encode_q8_0(const float* values, std::byte* block) {
  const float d = std::abs(signed_extreme(values, kBlock32)) / 127;
  put_f16(d, block);
  const float scale = inverse(d);
  for (int i = 0; i < kBlock32; i++) {  // halves go away from zero
    const float x = values[i] * scale;
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(x + std::copysign(0.5f, x)));
  }
}

void decode_iq4(const std::byte* block, float* out) {
  const float d = f16_at(block);
  uint8_t codes[kBlock32];
  decode_nibbles(block + 2, codes);
  for (int i = 0; i < kBlock32; i++) out[i] = d * static_cast<float>(kIq4Levels[codes[i]]);
}

void encode_iq4(const float* values, const float* importance, std::byte* block) {
  static constexpr ScaleTries kTries{7, 15};
  uint8_t codes[kBlock32];
  const float d = search_scale(values, importance, kBlock32, kIq4Levels, kTries, codes);
  put_f16(d, block);
  encode_nibbles(codes, block + 2);
}

}  // namespace

void decode_block32(DType dtype, const std::byte* block, float* out) {
  if (dtype == DType::q8_0) return decode_q8_0(block, out);
  if (dtype == DType::iq4_nl) return decode_iq4(block, out);
  decode_even(even_of(dtype), block, out);
}

void encode_block32(DType dtype, const float* values, std::byte* block) {
  if (dtype == DType::q8_0) return encode_q8_0(values, block);
  if (dtype == DType::iq4_nl) return encode_iq4(values, nullptr, block);
  encode_even(even_of(dtype), values, block);
}

void encode_block32(DType dtype, const float* values, const float* importance, std::byte* block) {
  if (dtype == DType::iq4_nl) return encode_iq4(values, importance, block);
  encode_even(even_of(dtype), values, importance, block);
}

}  // namespace fulmar
