// Number formats that files, weights, activations and states can have. The facts of each are in format.h.
#pragma once

#include <cstdint>

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

}  // namespace fulmar
