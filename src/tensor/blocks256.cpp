#include "tensor/blocks256.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/convert.h"
#include "tensor/scale_search.h"

namespace fulmar {

namespace {

// The offsets of a format's fields, in bytes from the start of the block; -1: it has no such field.
struct Layout {
  int subs;
  int scales, low, high, d, dmin;
  int low_bits;   // of a code in the `low` field: 2 or 4
  int high_bits;  // in the `high` field: 0, 1 or 2
  int zero;       // what is taken from a code
  int least_scale, most_scale;
};

Layout layout_of(DType dtype) {
  switch (dtype) {
    case DType::q2_k:
      return {16, 0, 16, -1, 80, 82, 2, 0, 0, 0, 15};
    case DType::q3_k:
      return {16, 96, 32, 0, 108, -1, 2, 1, 4, -32, 31};
    case DType::q4_k:
      return {8, 4, 16, -1, 0, 2, 4, 0, 0, 0, 63};
    case DType::q5_k:
      return {8, 4, 48, 16, 0, 2, 4, 1, 0, 0, 63};
    case DType::q6_k:
      return {16, 192, 0, 128, 208, -1, 4, 2, 32, -128, 127};
    default:
      FULMAR_CHECK(false, "no super-blocks");
  }
  return {};
}

uint8_t byte_at(const std::byte* from, int index) { return static_cast<uint8_t>(from[index]); }

float f16_at(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return f16_to_f32(bits);
}

void put_f16(float value, std::byte* to) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

float rounded_to_f16(float value) { return f16_to_f32(f32_to_f16(value)); }

// Adds codes to `codes`, shifted up. They lie in fields of `width` bits: field j of byte l of a run of `run`
// bytes holds element j * run + l of those that the run covers. put_fields is the inverse.
void or_fields(const std::byte* from, int width, int run, int shift, uint8_t* codes) {
  const int fields = 8 / width, mask = (1 << width) - 1;
  for (int e = 0; e < kBlock256; e += fields * run, from += run) {
    for (int j = 0; j < fields; j++) {
      for (int l = 0; l < run; l++) {
        codes[e + j * run + l] |= static_cast<uint8_t>((byte_at(from, l) >> j * width & mask) << shift);
      }
    }
  }
}

void put_fields(const uint8_t* codes, int width, int run, int shift, std::byte* to) {
  const int fields = 8 / width, mask = (1 << width) - 1;
  for (int e = 0; e < kBlock256; e += fields * run, to += run) {
    for (int l = 0; l < run; l++) {
      int packed = 0;
      for (int j = 0; j < fields; j++) packed |= (codes[e + j * run + l] >> shift & mask) << j * width;
      to[l] = static_cast<std::byte>(packed);
    }
  }
}

// Returns the bytes of a run of low fields: 32, but q6_k has the low nibbles of 64 codes in 64 bytes in a
// row.
int low_run(DType dtype) { return dtype == DType::q6_k ? 64 : 32; }

// ---- sub-block scales and minima

// Unpacks the eight 6-bit scales and minima of q4_k and q5_k from 12 bytes; the high bits of the last four
// are the top bits of the first four's bytes.
void split_scales12(const std::byte* from, SuperBlock& out) {
  for (int i = 0; i < 4; i++) {
    const int one = byte_at(from, i), two = byte_at(from, i + 4), three = byte_at(from, i + 8);
    out.scale[i] = static_cast<int16_t>(one & 63);
    out.minimum[i] = static_cast<uint8_t>(two & 63);
    out.scale[i + 4] = static_cast<int16_t>((three & 15) | one >> 6 << 4);
    out.minimum[i + 4] = static_cast<uint8_t>(three >> 4 | two >> 6 << 4);
  }
}

void join_scales12(const SuperBlock& parts, std::byte* to) {
  for (int i = 0; i < 4; i++) {
    const int low = parts.scale[i + 4], least = parts.minimum[i + 4];
    to[i] = static_cast<std::byte>(parts.scale[i] | low >> 4 << 6);
    to[i + 4] = static_cast<std::byte>(parts.minimum[i] | least >> 4 << 6);
    to[i + 8] = static_cast<std::byte>((low & 15) | (least & 15) << 4);
  }
}

// Unpacks the sixteen 6-bit scales of q3_k, less 32, from 12 bytes: eight of low nibbles, four of high bits.
void split_scales6(const std::byte* from, SuperBlock& out) {
  for (int i = 0; i < 16; i++) {
    const int low = i < 8 ? byte_at(from, i) & 15 : byte_at(from, i - 8) >> 4;
    const int high = byte_at(from, 8 + i % 4) >> 2 * (i / 4) & 3;
    out.scale[i] = static_cast<int16_t>((low | high << 4) - 32);
  }
}

void join_scales6(const SuperBlock& parts, std::byte* to) {
  int stored[16];
  for (int i = 0; i < 16; i++) stored[i] = parts.scale[i] + 32;
  for (int i = 0; i < 8; i++) to[i] = static_cast<std::byte>((stored[i] & 15) | (stored[i + 8] & 15) << 4);
  for (int i = 0; i < 4; i++) {
    int packed = 0;
    for (int j = 0; j < 4; j++) packed |= stored[i + 4 * j] >> 4 << 2 * j;
    to[8 + i] = static_cast<std::byte>(packed);
  }
}

void split_scales(DType dtype, const std::byte* from, SuperBlock& out) {
  if (dtype == DType::q3_k) return split_scales6(from, out);
  if (dtype == DType::q4_k || dtype == DType::q5_k) return split_scales12(from, out);
  for (int i = 0; i < 16; i++) {
    const uint8_t stored = byte_at(from, i);
    out.scale[i] = dtype == DType::q6_k ? static_cast<int16_t>(static_cast<int8_t>(stored))
                                        : static_cast<int16_t>(stored & 15);
    out.minimum[i] = dtype == DType::q6_k ? 0 : static_cast<uint8_t>(stored >> 4);
  }
}

void join_scales(DType dtype, const SuperBlock& parts, std::byte* to) {
  if (dtype == DType::q3_k) return join_scales6(parts, to);
  if (dtype == DType::q4_k || dtype == DType::q5_k) return join_scales12(parts, to);
  for (int i = 0; i < 16; i++) {
    to[i] = static_cast<std::byte>(dtype == DType::q6_k ? parts.scale[i]
                                                        : parts.scale[i] | parts.minimum[i] << 4);
  }
}

// ---- packing

// Returns the importance of a sub-block's values; null where none is known.
const float* part_of(const float* importance, int at) {
  return importance == nullptr ? nullptr : importance + at;
}

// Finds scales without minima: the best of each sub-block, then rounded to multiples of one d.
void fit_scales(const Layout& layout, const float* values, const float* importance, SuperBlock& parts) {
  static constexpr ScaleTries kTries{0.9f, 19};
  const int size = kBlock256 / layout.subs;
  float wanted[16];
  for (int s = 0; s < layout.subs; s++) {
    wanted[s] =
        search_even_scale(values + s * size, part_of(importance, s * size), size, layout.zero, kTries);
  }
  parts.d = rounded_to_f16(signed_extreme(wanted, layout.subs) / static_cast<float>(layout.least_scale));
  const float reciprocal = inverse(parts.d);
  for (int s = 0; s < layout.subs; s++) {
    const float level = std::clamp(std::rint(wanted[s] * reciprocal), static_cast<float>(layout.least_scale),
                                   static_cast<float>(layout.most_scale));
    parts.scale[s] = static_cast<int16_t>(level);
  }
}

// Finds scales and minima likewise, rounded to multiples of d and dmin.
void fit_affine(DType dtype, const Layout& layout, const float* values, const float* importance,
                SuperBlock& parts) {
  const int size = kBlock256 / layout.subs, top = (1 << (layout.low_bits + layout.high_bits)) - 1;
  const auto most = static_cast<float>(layout.most_scale);
  Affine wanted[16];
  float scale = 0, least = 0;
  for (int s = 0; s < layout.subs; s++) {
    const float* const sub = values + s * size;
    float squares = 0;
    for (int i = 0; i < size; i++) squares += sub[i] * sub[i];
    const float base = dtype == DType::q2_k ? 0 : std::sqrt(squares / static_cast<float>(size));
    wanted[s] = search_affine(sub, part_of(importance, s * size), size, top, base);
    scale = std::max(scale, wanted[s].scale);
    least = std::max(least, wanted[s].least);
  }
  parts.d = rounded_to_f16(scale / most);
  parts.dmin = rounded_to_f16(least / most);
  const float per_scale = inverse(parts.d), per_least = inverse(parts.dmin);
  for (int s = 0; s < layout.subs; s++) {
    parts.scale[s] = static_cast<int16_t>(std::clamp(std::rint(wanted[s].scale * per_scale), 0.0f, most));
    parts.minimum[s] = static_cast<uint8_t>(std::clamp(std::rint(wanted[s].least * per_least), 0.0f, most));
  }
}

// Finds the codes nearest to the values for the scales and minima as they are stored.
void fit_codes(const Layout& layout, const float* values, SuperBlock& parts) {
  const int size = kBlock256 / layout.subs, levels = 1 << (layout.low_bits + layout.high_bits);
  const auto low = static_cast<float>(-layout.zero), high = static_cast<float>(levels - 1 - layout.zero);
  for (int s = 0; s < layout.subs; s++) {
    const float least = layout.dmin < 0 ? 0 : parts.dmin * static_cast<float>(parts.minimum[s]);
    const float reciprocal = inverse(parts.d * static_cast<float>(parts.scale[s]));
    for (int e = s * size; e < (s + 1) * size; e++) {
      parts.code[e] = static_cast<int8_t>(std::clamp(std::rint((values[e] + least) * reciprocal), low, high));
    }
  }
}

}  // namespace

void split_block256(DType dtype, const std::byte* block, SuperBlock& out) {
  const Layout layout = layout_of(dtype);
  out.subs = layout.subs;
  out.d = f16_at(block + layout.d);
  out.dmin = layout.dmin < 0 ? 0 : f16_at(block + layout.dmin);
  split_scales(dtype, block + layout.scales, out);
  uint8_t codes[kBlock256] = {};
  or_fields(block + layout.low, layout.low_bits, low_run(dtype), 0, codes);
  if (layout.high_bits > 0) or_fields(block + layout.high, layout.high_bits, 32, layout.low_bits, codes);
  for (int e = 0; e < kBlock256; e++) out.code[e] = static_cast<int8_t>(codes[e] - layout.zero);
}

void join_block256(DType dtype, const SuperBlock& parts, std::byte* block) {
  const Layout layout = layout_of(dtype);
  put_f16(parts.d, block + layout.d);
  if (layout.dmin >= 0) put_f16(parts.dmin, block + layout.dmin);
  join_scales(dtype, parts, block + layout.scales);
  uint8_t codes[kBlock256];
  for (int e = 0; e < kBlock256; e++) codes[e] = static_cast<uint8_t>(parts.code[e] + layout.zero);
  put_fields(codes, layout.low_bits, low_run(dtype), 0, block + layout.low);
  if (layout.high_bits > 0) put_fields(codes, layout.high_bits, 32, layout.low_bits, block + layout.high);
}

void decode_block256(DType dtype, const std::byte* block, float* out) {
  SuperBlock parts;
  split_block256(dtype, block, parts);
  const bool minima = layout_of(dtype).dmin >= 0;
  const int size = kBlock256 / parts.subs;
  for (int s = 0; s < parts.subs; s++) {
    const float step = parts.d * static_cast<float>(parts.scale[s]);
    const float least = minima ? parts.dmin * static_cast<float>(parts.minimum[s]) : 0;
    for (int e = s * size; e < (s + 1) * size; e++) {
      const float scaled = step * static_cast<float>(parts.code[e]);
      out[e] = minima ? scaled - least : scaled;
    }
  }
}

void encode_block256(DType dtype, const float* values, std::byte* block) {
  encode_block256(dtype, values, nullptr, block);
}

void encode_block256(DType dtype, const float* values, const float* importance, std::byte* block) {
  const Layout layout = layout_of(dtype);
  SuperBlock parts;
  parts.subs = layout.subs;
  if (layout.dmin < 0) {
    fit_scales(layout, values, importance, parts);
  } else {
    fit_affine(dtype, layout, values, importance, parts);
  }
  fit_codes(layout, values, parts);
  join_block256(dtype, parts, block);
}

}  // namespace fulmar
