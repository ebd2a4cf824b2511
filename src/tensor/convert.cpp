#include "tensor/convert.h"

#include <cstring>

#include "base/check.h"
#include "tensor/blocks256.h"
#include "tensor/blocks32.h"
#include "tensor/scaled_codes.h"

namespace fulmar {

uint16_t f32_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: the value is mantissa * 2^-24, exact in f32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to inf
  if (magnitude < 0x38800000u) {
    // Subnormal result: adding 0.5 lets the FPU round to a multiple of 2^-24.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

namespace {

template <class Stored, class Convert>
void read_all(const void* source, std::span<float> out, Convert convert) {
  const auto* bytes = static_cast<const unsigned char*>(source);
  for (size_t i = 0; i < out.size(); i++) {
    Stored stored;
    std::memcpy(&stored, bytes + i * sizeof(Stored), sizeof(Stored));
    out[i] = convert(stored);
  }
}

void decode_blocks(DType dtype, const std::byte* source, std::span<float> out) {
  const Format& format = format_of(dtype);
  const auto block = static_cast<size_t>(format.block);
  FULMAR_CHECK(out.size() % block == 0);
  const auto decode = format.block == kBlock32 ? decode_block32 : decode_block256;
  for (size_t first = 0; first < out.size(); first += block, source += format.bytes) {
    decode(dtype, source, &out[first]);
  }
}

}  // namespace

void to_f32(DType dtype, const void* source, std::span<float> out) {
  const auto plain = [](auto stored) { return static_cast<float>(stored); };
  switch (dtype) {
    case DType::f32:
      std::memcpy(out.data(), source, out.size_bytes());
      return;
    case DType::f16:
      return read_all<uint16_t>(source, out, f16_to_f32);
    case DType::bf16:
      return read_all<uint16_t>(source, out, bf16_to_f32);
    case DType::f64:
      return read_all<double>(source, out, plain);
    case DType::i64:
      return read_all<int64_t>(source, out, plain);
    case DType::i32:
      return read_all<int32_t>(source, out, plain);
    case DType::u8:
      return read_all<uint8_t>(source, out, plain);
    case DType::i8:
      return read_all<int8_t>(source, out, plain);
    case DType::f8_e4m3:
    case DType::i4:
    case DType::nf4:
      return decode_group(dtype, static_cast<const std::byte*>(source), 1, out);
    default:
      return decode_blocks(dtype, static_cast<const std::byte*>(source), out);
  }
}

void from_f32(std::span<const float> values, DType dtype, void* target) {
  if (dtype == DType::f32) {
    std::memcpy(target, values.data(), values.size_bytes());
    return;
  }
  FULMAR_CHECK(dtype == DType::f16 || dtype == DType::bf16);
  auto* out = static_cast<unsigned char*>(target);
  for (size_t i = 0; i < values.size(); i++) {
    const uint16_t bits = dtype == DType::f16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
    std::memcpy(out + i * 2, &bits, 2);
  }
}

void encode_blocks(DType dtype, std::span<const float> values, std::byte* target) {
  const Format& format = format_of(dtype);
  const auto block = static_cast<size_t>(format.block);
  FULMAR_CHECK(is_block(dtype) && values.size() % block == 0);
  for (size_t first = 0; first < values.size(); first += block, target += format.bytes) {
    if (format.block == kBlock32) {
      encode_block32(dtype, &values[first], target);
    } else {
      encode_block256(dtype, &values[first], target);
    }
  }
}

}  // namespace fulmar
