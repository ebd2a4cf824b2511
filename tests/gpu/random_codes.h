// Quantised matrices of random codes, for tests of what reads them.
#pragma once

#include <cstring>
#include <vector>

#include "tensor/convert.h"
#include "tensor/format.h"
#include "tensor/quantise.h"
#include "tensor/weight.h"

namespace fulmar {

// Any bytes at all as codes, with scales of a usual size.
struct RandomCodes {
  std::vector<std::byte> codes;
  std::vector<float> scales;
  HostMatrix matrix;

  RandomCodes(const Quantisation& by, int64_t out, int64_t in) {
    const Format& format = format_of(by.dtype);
    codes.resize(bytes_for(by.dtype, out * in));
    for (std::byte& one : codes) one = static_cast<std::byte>(next() >> 24);
    if (by.dtype == DType::f8_e4m3) {
      for (std::byte& one : codes) {
        if ((one & std::byte{0x7f}) == std::byte{0x7f}) one = std::byte{0x7e};  // NaN means nothing here
      }
    }
    for (size_t block = 0; is_block(by.dtype) && block < codes.size();
         block += static_cast<size_t>(format.bytes)) {
      for (const int at : format.factors) {
        if (at < 0) continue;
        const uint16_t bits = f32_to_f16(number() * 0.01f);
        std::memcpy(codes.data() + block + at, &bits, sizeof(bits));
      }
    }
    scales.resize(static_cast<size_t>(out * scales_per_row(by, in)));
    for (float& one : scales) one = number() * 0.01f;
    matrix = {codes.data(), by.dtype, out, in, in, 1};
    if (!scales.empty()) matrix.scales = scales.data(), matrix.group = group_of(by, in);
  }

 private:
  uint32_t next() { return state_ = state_ * 1664525u + 1013904223u; }
  float number() { return static_cast<float>(next() >> 8) * 0x1p-23f - 1.0f; }
  uint32_t state_ = 5;
};

}  // namespace fulmar
