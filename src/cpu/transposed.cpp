#include "cpu/transposed.h"

#include <algorithm>
#include <cstring>

#include "tensor/blocks256.h"
#include "tensor/format.h"

namespace fulmar {
namespace {

constexpr int64_t kHalf = kStripOutputs / 2;
constexpr int64_t kInputsAtOnce = 128;  // of formats without blocks: several cache lines of source

bool has_nibbles(DType dtype) {
  const StripFormat strip = strip_format(dtype);
  return strip.high_bits > 0 || strip.row_bytes == kHalf;
}

bool is_super_block(DType dtype) { return strip_format(dtype).block == kBlock256; }

// Writes the codes of one output and consecutive inputs, one a byte, as rows hold them.
void split_codes(const HostMatrix& matrix, int64_t output, int64_t first, int64_t count, uint8_t* to) {
  const std::byte* const from = matrix.data + bytes_for(matrix.dtype, output * matrix.cols + first);
  const auto low = [&](int64_t i) { return static_cast<uint8_t>(from[i] & std::byte{15}); };
  const auto high = [&](int64_t i) { return static_cast<uint8_t>(from[i] >> 4); };
  switch (matrix.dtype) {
    case DType::i4:
      for (int64_t i = 0; i < count; i++) to[i] = (i % 2 == 0 ? low(i / 2) : high(i / 2)) ^ 8;
      return;
    case DType::nf4:
      for (int64_t i = 0; i < count; i++) to[i] = i % 2 == 0 ? high(i / 2) : low(i / 2);
      return;
    default:
      std::memcpy(to, from, static_cast<size_t>(count));
  }
}

// Does the same for a block of a format with factors inside; `at` is the block.
void split_block(const Format& format, const std::byte* at, uint8_t* to) {
  if (is_super_block(format.dtype)) {
    constexpr int kMiddle = 32;  // of q6_k, whose codes count from there
    SuperBlock parts;
    split_block256(format.dtype, at, parts);
    for (int64_t i = 0; i < kBlock256; i++) {
      to[i] = static_cast<uint8_t>(parts.code[i] + (format.dtype == DType::q6_k ? kMiddle : 0));
    }
    return;
  }
  const std::byte* codes = at + (format.factors[1] >= 0 ? 4 : 2);
  if (format.dtype == DType::q8_0) {
    std::memcpy(to, codes, static_cast<size_t>(format.block));
    return;
  }
  uint32_t fifth = 0;
  if (strip_format(format.dtype).high_bits > 0) {
    std::memcpy(&fifth, codes, sizeof(fifth));
    codes += sizeof(fifth);
  }
  for (int64_t i = 0; i < format.block / 2; i++) {
    to[i] = static_cast<uint8_t>(codes[i] & std::byte{15});
    to[i + format.block / 2] = static_cast<uint8_t>(codes[i] >> 4);
  }
  for (int64_t i = 0; i < format.block; i++) to[i] |= static_cast<uint8_t>((fifth >> i & 1) << 4);
}

void put_factors(const Format& format, const std::byte* at, int64_t output, std::byte* to) {
  std::byte* next = to;
  for (const int factor : format.factors) {
    if (factor < 0) continue;
    std::memcpy(next + 2 * output, at + factor, 2);
    next += 2 * kStripOutputs;
  }
  if (!is_super_block(format.dtype)) return;
  SuperBlock parts;
  split_block256(format.dtype, at, parts);
  for (int64_t s = 0; s < parts.subs; s++) {
    next[output] = static_cast<std::byte>(parts.scale[s]);
    next += kStripOutputs;
    if (format.factors[1] < 0) continue;
    next[output] = static_cast<std::byte>(parts.minimum[s]);
    next += kStripOutputs;
  }
}

// Writes one row of codes of up to six bits; in `codes` `stride` bytes lie between outputs.
void put_nibbles(const uint8_t* codes, int64_t stride, int high_bits, std::byte* to) {
  const auto code = [&](int64_t o) { return codes[o * stride]; };
  for (int64_t o = 0; o < kHalf; o++) {
    to[o] = static_cast<std::byte>((code(o) & 15) | (code(o + kHalf) & 15) << 4);
  }
  if (high_bits == 0) return;
  const int64_t bytes = kStripOutputs / 8 * high_bits;
  for (int64_t i = 0; i < bytes; i++) {
    int packed = 0;
    for (int j = 0; j < 8 / high_bits; j++) packed |= code(i + j * bytes) >> 4 << j * high_bits;
    to[kHalf + i] = static_cast<std::byte>(packed);
  }
}

// Writes rows one after the other to `to`; `codes` is [128][count].
void put_rows(DType dtype, const uint8_t* codes, int64_t count, std::byte* to) {
  const StripFormat strip = strip_format(dtype);
  for (int64_t k = 0; k < count; k++, to += strip.row_bytes) {
    if (has_nibbles(dtype)) {
      put_nibbles(codes + k, count, strip.high_bits, to);
      continue;
    }
    for (int64_t o = 0; o < kStripOutputs; o++) to[o] = static_cast<std::byte>(codes[o * count + k]);
  }
}

// Writes numbers by tiles that fit in cache, so that memory is read and written in whole lines.
template <class Element>
void put_numbers(const HostMatrix& matrix, int64_t first, int64_t outputs, std::byte* to) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(Element));
  Element tile[kStripOutputs * kInputsAtOnce] = {};
  for (int64_t k0 = 0; k0 < matrix.cols; k0 += kInputsAtOnce) {
    const int64_t count = std::min(kInputsAtOnce, matrix.cols - k0);
    for (int64_t o = 0; o < outputs; o++) {
      const std::byte* const from =
          matrix.data + ((first + o) * matrix.row_stride + k0 * matrix.col_stride) * kSize;
      for (int64_t k = 0; k < count; k++) {
        std::memcpy(&tile[o * kInputsAtOnce + k], from + k * matrix.col_stride * kSize, sizeof(Element));
      }
    }
    for (int64_t k = 0; k < count; k++, to += kStripOutputs * kSize) {
      for (int64_t o = 0; o < kStripOutputs; o++) {
        std::memcpy(to + o * kSize, &tile[o * kInputsAtOnce + k], sizeof(Element));
      }
    }
  }
}

// Writes one strip of codes; those of outputs beyond the matrix stay zero.
void put_codes(const HostMatrix& matrix, int64_t first, int64_t outputs, std::byte* to) {
  const Format& format = format_of(matrix.dtype);
  const StripFormat strip = strip_format(matrix.dtype);
  const bool inside = strip.factor_bytes > 0;
  uint8_t codes[kStripOutputs * kBlock256];
  for (int64_t k = 0; k < matrix.cols;) {
    const int64_t count = inside ? strip.block : std::min(kInputsAtOnce, matrix.cols - k);
    if (outputs < kStripOutputs) std::fill(std::begin(codes), std::end(codes), uint8_t{0});
    for (int64_t o = 0; o < outputs; o++) {
      if (!inside) {
        split_codes(matrix, first + o, k, count, codes + o * count);
        continue;
      }
      const std::byte* const at = matrix.data + bytes_for(matrix.dtype, (first + o) * matrix.cols + k);
      split_block(format, at, codes + o * count);
      put_factors(format, at, o, to);
    }
    put_rows(matrix.dtype, codes, count, to + strip.factor_bytes);
    to += strip.factor_bytes + count * strip.row_bytes;
    k += count;
  }
}

}  // namespace

bool can_transpose(const HostMatrix& matrix) {
  const StripFormat strip = strip_format(matrix.dtype);
  if (strip.block == 0 || matrix.cols % std::max<int64_t>(strip.block, 4) != 0) return false;
  if (is_kernel_float(matrix.dtype)) return true;
  if (is_scaled(matrix.dtype) != (matrix.scales != nullptr)) return false;
  return matrix.row_major() && (matrix.scales == nullptr || matrix.cols % matrix.group == 0);
}

size_t transposed_bytes(const HostMatrix& matrix) {
  const StripFormat strip = strip_format(matrix.dtype);
  return static_cast<size_t>(strips_of(matrix.rows) * (matrix.cols / strip.block) * strip.block_bytes());
}

int64_t transposed_scales(const HostMatrix& matrix) {
  return matrix.scales == nullptr ? 0 : strips_of(matrix.rows) * kStripOutputs * (matrix.cols / matrix.group);
}

void transpose_strips(const HostMatrix& matrix, int64_t first, int64_t last, std::byte* codes,
                      float* scales) {
  const auto bytes = static_cast<int64_t>(transposed_bytes(matrix)) / strips_of(matrix.rows);
  for (int64_t strip = first; strip < last; strip++) {
    const int64_t begin = strip * kStripOutputs, outputs = std::min(kStripOutputs, matrix.rows - begin);
    std::byte* const to = codes + strip * bytes;
    std::memset(to, 0, static_cast<size_t>(bytes));
    if (matrix.dtype == DType::f32) {
      put_numbers<uint32_t>(matrix, begin, outputs, to);
    } else if (is_kernel_float(matrix.dtype)) {
      put_numbers<uint16_t>(matrix, begin, outputs, to);
    } else {
      put_codes(matrix, begin, outputs, to);
    }
    if (matrix.scales == nullptr) continue;
    const int64_t groups = matrix.cols / matrix.group;
    float* const strip_scales = scales + strip * groups * kStripOutputs;
    std::fill_n(strip_scales, groups * kStripOutputs, 0.0f);
    for (int64_t o = 0; o < outputs; o++) {
      for (int64_t g = 0; g < groups; g++) {
        strip_scales[g * kStripOutputs + o] = matrix.scales[(begin + o) * groups + g];
      }
    }
  }
}

}  // namespace fulmar
