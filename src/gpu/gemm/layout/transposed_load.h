// From codes packed transposed (layout/packed.h) to operands of mma: the loads of a lane, four inputs of
// eight neighbouring outputs, and how it widens them.
#pragma once

#include "gpu/gemm/layout/packed_load.h"
#include "gpu/gemm/sparse_step.h"

namespace fulmar::gpu {

constexpr int kValueQuad = 4;  // inputs that a lane takes at a time

// The codes of four inputs of one group of 32, of kOuts (four or eight) neighbouring outputs, in their order
// in memory. Codes are words, but four of 4 bits half a word.
template <CodeKind kKind, int kOuts>
struct ValueCodes {
  static constexpr int kBytes = kOuts * bits_of(kKind) / 8, kWords = (kBytes + 3) / 4;
  uint32_t of[kValueQuad][kWords];
};
template <CodeKind kKind, int kOuts>
struct ValueFactors {
  uint32_t factor[kOuts];  // f32 scales; f16 ones take half of this
  uint32_t super[kKind == CodeKind::affine ? kOuts : 1];
};

template <int kBytes>
__device__ __forceinline__ void copy_words(uint32_t* to, const void* from) {
  if constexpr (kBytes == 2) {
    to[0] = *static_cast<const uint16_t*>(from);
  } else if constexpr (kBytes == 4) {
    to[0] = *static_cast<const uint32_t*>(from);
  } else if constexpr (kBytes == 8) {
    const auto v = *static_cast<const uint2*>(from);
    to[0] = v.x, to[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < kBytes / 16; i++) {
      const uint4 v = static_cast<const uint4*>(from)[i];
      to[4 * i] = v.x, to[4 * i + 1] = v.y, to[4 * i + 2] = v.z, to[4 * i + 3] = v.w;
    }
  }
}

// Loads four inputs' codes; place(i) returns the i-th's row in the matrix. out: the first output.
template <CodeKind kKind, class Place>
__device__ __forceinline__ void load_value_codes(ValueCodes<kKind, kKeptLaneOuts>& to, const PackedMatrix& m,
                                                 int out, Place&& place) {
  constexpr int kBits = bits_of(kKind);
  const int64_t row_words = static_cast<int64_t>(m.outs) * kBits / 32;
  const auto* codes = reinterpret_cast<const uint32_t*>(m.codes) + out * kBits / 32;
#pragma unroll
  for (int i = 0; i < kValueQuad; i++) {
    const uint32_t* from = codes + place(i) * row_words;
    if constexpr (kBits == 8) {
      const uint2 both = __ldcs(reinterpret_cast<const uint2*>(from));
      to.of[i][0] = both.x, to.of[i][1] = both.y;
    } else {
      to.of[i][0] = __ldcs(from);
    }
  }
}

// Copies the factors of kOuts outputs, f32 or f16 as has_factors says, and their supers.
template <CodeKind kKind, int kOuts, ScaleLayout kScales = ScaleLayout::any>
__device__ __forceinline__ void copy_value_factors(ValueFactors<kKind, kOuts>& to, const PackedMatrix& m,
                                                   const void* factors, const void* supers) {
  if (has_factors<kKind, kScales>(m)) {
    copy_words<kOuts * 2>(to.factor, factors);
    if constexpr (kKind == CodeKind::affine) copy_words<kOuts * 4>(to.super, supers);
  } else {
    copy_words<kOuts * 4>(to.factor, factors);
  }
}

// Loads the factors of a group of 32 inputs of the matrix. out: the first output.
template <CodeKind kKind, int kOuts, ScaleLayout kScales = ScaleLayout::any>
__device__ __forceinline__ void load_value_factors(ValueFactors<kKind, kOuts>& to, const PackedMatrix& m,
                                                   int group, int out) {
  if (has_factors<kKind, kScales>(m)) {
    const auto* halves = reinterpret_cast<const uint16_t*>(m.factors) + static_cast<int64_t>(group) * m.outs;
    const uint32_t* super = m.supers + static_cast<int64_t>(group / 8) * m.outs;
    copy_value_factors<kKind, kOuts, kScales>(to, m, halves + out, super + out);
  } else {
    const int line = m.groups == 1 ? 0 : group * kPackedGroup >> m.group_shift;
    copy_value_factors<kKind, kOuts, kScales>(to, m, m.scales + static_cast<int64_t>(line) * m.outs + out,
                                              nullptr);
  }
}

template <CodeKind kKind, int kOuts, ScaleLayout kScales = ScaleLayout::any>
__device__ __forceinline__ void value_factors_of(const ValueFactors<kKind, kOuts>& from,
                                                 const PackedMatrix& m, PackedFactor (&by)[kOuts]) {
#pragma unroll
  for (int o = 0; o < kOuts; o++) {
    if constexpr (kKind == CodeKind::affine) {
      by[o] = affine_factor(from.factor[o / 2] >> o % 2 * 16, from.super[o]);
    } else if (has_factors<kKind, kScales>(m)) {
      const __half2 both = half2_of(from.factor[o / 2]);
      by[o].scale = o % 2 != 0 ? __high2half2(both) : __low2half2(both);
    } else {
      by[o].scale = both_halves<kKind>(__uint_as_float(from.factor[o]));
    }
  }
}

// Widens the codes of two inputs to pairs along the inputs, one for each output.
template <CodeKind kKind, int kOuts>
__device__ __forceinline__ void pair_codes(const uint32_t (&a)[ValueCodes<kKind, kOuts>::kWords],
                                           const uint32_t (&b)[ValueCodes<kKind, kOuts>::kWords],
                                           const uint32_t* table, __half2 (&out)[kOuts]) {
  if constexpr (bits_of(kKind) == 8) {
#pragma unroll
    for (int i = 0; i < kOuts / 2; i++) {
      const uint32_t both = __byte_perm(a[i / 2], b[i / 2], i % 2 == 0 ? 0x5140 : 0x7362);
      out[2 * i] = widen_bytes<kKind>(both, false);
      out[2 * i + 1] = widen_bytes<kKind>(both, true);
    }
  } else if constexpr (kKind == CodeKind::levels) {
    const uint32_t even = (a[0] & 0x0f0f0f0f) | (b[0] & 0x0f0f0f0f) << 4;
    const uint32_t odd = (a[0] >> 4 & 0x0f0f0f0f) | (b[0] & 0xf0f0f0f0);
#pragma unroll
    for (int i = 0; i < kOuts / 2; i++) {
      out[2 * i] = half2_of(table[even >> 8 * i & 255]);
      out[2 * i + 1] = half2_of(table[odd >> 8 * i & 255]);
    }
  } else {
    __half2 four[4];
#pragma unroll
    for (int i = 0; i < kOuts / 4; i++) {
      split_nibbles<kKind>(__byte_perm(a[0], b[0], i == 0 ? 0x5410 : 0x7632), four);
#pragma unroll
      for (int e = 0; e < 4; e++) out[4 * i + e] = four[e];
    }
  }
}

// Widens the codes of one input to four pairs of outputs: e and e + 4 of signed or
// affine nibbles, else 2e and 2e + 1.
constexpr int pair_step(CodeKind kind) {
  return kind == CodeKind::nibbles || kind == CodeKind::affine ? kKeptLaneOuts / 2 : 1;
}
constexpr int pair_begin(CodeKind kind, int e) { return pair_step(kind) == 1 ? 2 * e : e; }
template <CodeKind kKind>
__device__ __forceinline__ void pairs_of_row(
    const uint32_t (&codes)[ValueCodes<kKind, kKeptLaneOuts>::kWords], const uint32_t* table,
    __half2 (&out)[kKeptLaneOuts / 2]) {
  if constexpr (bits_of(kKind) == 8) {
#pragma unroll
    for (int e = 0; e < 4; e++) out[e] = widen_bytes<kKind>(codes[e / 2], e % 2 != 0);
  } else {
    widen_nibbles<kKind>(codes[0], table, out);
  }
}

// Calls f(j, left) with the outputs 2j and 2j + 1 as rows g and g + 8 of a left operand, the four inputs as
// columns 2q, 2q + 1, 2q + 8 and 2q + 9 (fragment.h).
template <class T, CodeKind kKind, int kOuts, class F>
__device__ __forceinline__ void widen_value(const ValueCodes<kKind, kOuts>& codes,
                                            const PackedFactor (&by)[kOuts], const uint32_t* table, F&& f) {
  __half2 low[kOuts], high[kOuts];
  pair_codes<kKind, kOuts>(codes.of[0], codes.of[1], table, low);
  pair_codes<kKind, kOuts>(codes.of[2], codes.of[3], table, high);
#pragma unroll
  for (int j = 0; j < kOuts / 2; j++) {
    const uint32_t left[4] = {operand<T>(scaled<kKind>(low[2 * j], by[2 * j])),
                              operand<T>(scaled<kKind>(low[2 * j + 1], by[2 * j + 1])),
                              operand<T>(scaled<kKind>(high[2 * j], by[2 * j])),
                              operand<T>(scaled<kKind>(high[2 * j + 1], by[2 * j + 1]))};
    f(j, left);
  }
}

}  // namespace fulmar::gpu
