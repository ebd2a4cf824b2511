// The number formats that files, weights, activations and states can have, and the facts of each: its name,
// and how many bytes a number of elements takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/check.h"

namespace fulmar {

enum class DType : uint8_t {
  // Plain: one number an element.
  f32,
  f16,   // IEEE binary16
  bf16,  // the upper half of an f32
  f64,
  i64,
  i32,
  u8,
  i8,

  // Codes whose scales lie beside them (Weight::scales). So does i8 when it holds a quantised weight.
  f8_e4m3,  // 4 exponent bits with bias 7, 3 mantissa bits, no infinity ("fn")
  i4,       // two's complement, two a byte, the low nibble first
  nf4,      // indices into the 16 quantiles of the normal distribution, two a byte, the high nibble first

  // Blocks of a row's consecutive weights with their scales inside, as GGUF files hold them.
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  iq4_nl,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
};

struct Format {
  DType dtype;
  std::string_view name;
  int64_t block;  // consecutive elements of a row that are stored as one; a row holds whole blocks
  int64_t bytes;  // of one block
  int factors[2] = {-1, -1};  // where a block has its f16 scale and, where it has one, its minimum; bytes
};

// In the order of the enumeration.
inline constexpr Format kFormats[] = {
    {DType::f32, "f32", 1, 4},
    {DType::f16, "f16", 1, 2},
    {DType::bf16, "bf16", 1, 2},
    {DType::f64, "f64", 1, 8},
    {DType::i64, "i64", 1, 8},
    {DType::i32, "i32", 1, 4},
    {DType::u8, "u8", 1, 1},
    {DType::i8, "i8", 1, 1},
    {DType::f8_e4m3, "f8_e4m3", 1, 1},
    {DType::i4, "i4", 2, 1},
    {DType::nf4, "nf4", 2, 1},
    {DType::q4_0, "q4_0", 32, 18, {0, -1}},
    {DType::q4_1, "q4_1", 32, 20, {0, 2}},
    {DType::q5_0, "q5_0", 32, 22, {0, -1}},
    {DType::q5_1, "q5_1", 32, 24, {0, 2}},
    {DType::q8_0, "q8_0", 32, 34, {0, -1}},
    {DType::iq4_nl, "iq4_nl", 32, 18, {0, -1}},
    {DType::q2_k, "q2_k", 256, 84, {80, 82}},
    {DType::q3_k, "q3_k", 256, 110, {108, -1}},
    {DType::q4_k, "q4_k", 256, 144, {0, 2}},
    {DType::q5_k, "q5_k", 256, 176, {0, 2}},
    {DType::q6_k, "q6_k", 256, 210, {208, -1}},
};

// Returns whether each format stands at its enumerator's place, and none is missing.
constexpr bool has_each_format() {
  for (size_t i = 0; i < std::size(kFormats); i++) {
    if (kFormats[i].dtype != static_cast<DType>(i)) return false;
  }
  return std::size(kFormats) == static_cast<size_t>(DType::q6_k) + 1;
}
static_assert(has_each_format());

constexpr const Format& format_of(DType dtype) { return kFormats[static_cast<size_t>(dtype)]; }

// Returns "f32", "q4_k", ...
constexpr std::string_view name_of(DType dtype) { return format_of(dtype).name; }

// Returns the bytes that `count` elements, a whole number of blocks, take.
constexpr size_t bytes_for(DType dtype, int64_t count) {
  const Format& format = format_of(dtype);
  FULMAR_CHECK(count % format.block == 0);
  return static_cast<size_t>(count / format.block * format.bytes);
}

// Returns the bytes of one element; not for formats that store several elements together.
constexpr size_t size_of(DType dtype) { return bytes_for(dtype, 1); }

// Returns whether the format holds plain floating-point numbers.
constexpr bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f64;
}

// Returns whether it holds floating-point numbers that kernels read as they are stored.
constexpr bool is_kernel_float(DType dtype) { return is_float(dtype) && dtype != DType::f64; }

// Returns whether it holds blocks with their scales inside, as GGUF files have them.
constexpr bool is_block(DType dtype) { return dtype >= DType::q4_0; }

// Returns whether it holds codes that mean nothing without separate scales.
constexpr bool is_scaled(DType dtype) {
  return dtype == DType::i8 || dtype == DType::f8_e4m3 || dtype == DType::i4 || dtype == DType::nf4;
}

}  // namespace fulmar
