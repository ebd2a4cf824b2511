// From transposed packed codes (packed.h) to operands of matrix instructions: what a lane loads of four
// inputs and eight neighbouring outputs, and how it widens it.
#pragma once

#include "gpu/products/kept_step.h"
#include "gpu/products/packed_load.h"

namespace fulmar::gpu {

constexpr int kValueQuad = 4;  // inputs that a lane takes at a time

// Eight outputs of four inputs of one group of 32, and their scales, as they lie in memory.
template <CodeKind kKind>
struct ValueCodes {
  static constexpr int kWords = bits_of(kKind) / 4;
  uint32_t of[kValueQuad][kWords];
};
template <CodeKind kKind>
struct ValueFactors {
  uint4 of[kKind == CodeKind::affine ? 3 : 2];
};

// place(i) of the four inputs in the matrix; out: the first output.
template <CodeKind kKind, class Place>
__device__ __forceinline__ void load_value_codes(ValueCodes<kKind>& to, const PackedMatrix& m, int out,
                                                 Place&& place) {
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

// group: of 32 inputs, in the matrix; out: the first output.
template <CodeKind kKind>
__device__ __forceinline__ void load_value_factors(ValueFactors<kKind>& to, const PackedMatrix& m, int group,
                                                   int out) {
  if (kKind == CodeKind::affine || (kKind != CodeKind::float8 && m.factors != nullptr)) {
    const auto* halves = reinterpret_cast<const uint16_t*>(m.factors) + static_cast<int64_t>(group) * m.outs;
    to.of[0] = *reinterpret_cast<const uint4*>(halves + out);
    if constexpr (kKind == CodeKind::affine) {
      const uint32_t* super = m.supers + static_cast<int64_t>(group / 8) * m.outs + out;
      to.of[1] = reinterpret_cast<const uint4*>(super)[0];
      to.of[2] = reinterpret_cast<const uint4*>(super)[1];
    }
  } else {
    const int line = m.groups == 1 ? 0 : group * kPackedGroup >> m.group_shift;
    const auto* scale = reinterpret_cast<const uint4*>(m.scales + static_cast<int64_t>(line) * m.outs + out);
    to.of[0] = scale[0], to.of[1] = scale[1];
  }
}

__device__ __forceinline__ void words_of(const uint4& v, uint32_t (&out)[4]) {
  out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
}

// The factors of the eight outputs.
template <CodeKind kKind>
__device__ __forceinline__ void value_factors_of(const ValueFactors<kKind>& from, const PackedMatrix& m,
                                                 PackedFactor (&by)[kKeptLaneOuts]) {
  uint32_t word[3][4];
#pragma unroll
  for (int i = 0; i < (kKind == CodeKind::affine ? 3 : 2); i++) words_of(from.of[i], word[i]);
  if constexpr (kKind == CodeKind::affine) {
#pragma unroll
    for (int o = 0; o < kKeptLaneOuts; o++) {
      by[o] = affine_factor(word[0][o / 2] >> o % 2 * 16, word[1 + o / 4][o % 4]);
    }
  } else if (kKind != CodeKind::float8 && m.factors != nullptr) {
#pragma unroll
    for (int i = 0; i < kKeptLaneOuts / 2; i++) {
      const __half2 both = half2_of(word[0][i]);
      by[2 * i].scale = __low2half2(both), by[2 * i + 1].scale = __high2half2(both);
    }
  } else {
#pragma unroll
    for (int o = 0; o < kKeptLaneOuts; o++)
      by[o].scale = both_halves<kKind>(__uint_as_float(word[o / 4][o % 4]));
  }
}

// The codes of eight outputs of two inputs, as pairs along the inputs.
template <CodeKind kKind>
__device__ __forceinline__ void pair_codes(const uint32_t (&a)[ValueCodes<kKind>::kWords],
                                           const uint32_t (&b)[ValueCodes<kKind>::kWords],
                                           const uint32_t* table, __half2 (&out)[kKeptLaneOuts]) {
  if constexpr (bits_of(kKind) == 8) {
#pragma unroll
    for (int w = 0; w < 2; w++) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const uint32_t both = __byte_perm(a[w], b[w], i == 0 ? 0x5140 : 0x7362);
        out[4 * w + 2 * i] = widen_bytes<kKind>(both, false);
        out[4 * w + 2 * i + 1] = widen_bytes<kKind>(both, true);
      }
    }
  } else if constexpr (kKind == CodeKind::levels) {
    const uint32_t even = (a[0] & 0x0f0f0f0f) | (b[0] & 0x0f0f0f0f) << 4;
    const uint32_t odd = (a[0] >> 4 & 0x0f0f0f0f) | (b[0] & 0xf0f0f0f0);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      out[2 * i] = half2_of(table[even >> 8 * i & 255]);
      out[2 * i + 1] = half2_of(table[odd >> 8 * i & 255]);
    }
  } else {
    __half2 four[4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      split_nibbles<kKind>(__byte_perm(a[0], b[0], i == 0 ? 0x5410 : 0x7632), four);
#pragma unroll
      for (int e = 0; e < 4; e++) out[4 * i + e] = four[e];
    }
  }
}

// f(j, left) for j = 0 to 3: the outputs 2j and 2j + 1 as rows g and g + 8 of a left operand, the four inputs
// as columns 2q, 2q + 1, 2q + 8 and 2q + 9 (fragment.h).
template <class T, CodeKind kKind, class F>
__device__ __forceinline__ void widen_value(const ValueCodes<kKind>& codes,
                                            const PackedFactor (&by)[kKeptLaneOuts], const uint32_t* table,
                                            F&& f) {
  __half2 low[kKeptLaneOuts], high[kKeptLaneOuts];
  pair_codes<kKind>(codes.of[0], codes.of[1], table, low);
  pair_codes<kKind>(codes.of[2], codes.of[3], table, high);
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const uint32_t left[4] = {operand<T>(scaled<kKind>(low[2 * j], by[2 * j])),
                              operand<T>(scaled<kKind>(low[2 * j + 1], by[2 * j + 1])),
                              operand<T>(scaled<kKind>(high[2 * j], by[2 * j])),
                              operand<T>(scaled<kKind>(high[2 * j + 1], by[2 * j + 1]))};
    f(j, left);
  }
}

}  // namespace fulmar::gpu
