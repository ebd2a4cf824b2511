// From packed codes to operands of mma: the loads of a lane from a piece, and how it widens codes to pairs of
// 16-bit numbers. Codes become halves by masks and permutes that put them below an exponent (magic numbers),
// which is subtracted exactly; one multiplication by the scale rounds once.
#pragma once

#include <type_traits>
#include <utility>

#include "gpu/device/vendor.h"
#ifdef FULMAR_DEVICE_CODE
#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/device/ptx.h"
#endif
#include "gpu/gemm/layout/packed.h"
#include "tensor/blocks32.h"
#include "tensor/scaled_codes.h"

namespace fulmar::gpu {

// E4M3 bits shifted into a half read as value / 256: multiply by this.
constexpr float kFloat8Lift = 256.0f;

constexpr int kGroupShift = 5;
static_assert(1 << kGroupShift == kPackedGroup);

// The layout of a matrix's scales: a template constant of kernels that are bound by instructions.
enum class ScaleLayout : uint8_t {
  any,      // one of the others, known at run time
  factors,  // f16, or bytes and supers, in one piece with the codes
  group,    // f32, of 32 inputs
  pair,     // f32, of 64
  piece,    // f32, of 128 or more: one for all inputs of a piece
  row,      // f32, of all inputs: as `piece`, but the wgmma kernels apply it once, to the sums
};

// A packed matrix as kernels take it.
struct PackedMatrix {
  const std::byte* codes;
  const uint32_t* factors;  // null: f32 scales
  const uint32_t* supers;
  const uint2* upper;
  const float* scales;
  int pieces;       // of a row
  int groups;       // of a row's f32 scales
  int group_shift;  // inputs of a group; 31: the whole row
  int outs;
  ScaleLayout layout;  // not `any`
  bool nf4;            // which levels
};

constexpr ScaleLayout packed_scales(const Weight& weight) {
  if (is_block(weight.dtype)) return ScaleLayout::factors;
  if (weight.group == kPackedGroup) return ScaleLayout::group;
  return weight.group == 2 * kPackedGroup ? ScaleLayout::pair : ScaleLayout::piece;
}

inline PackedMatrix packed_matrix_of(const Weight& weight) {
  const PackedParts parts = packed_parts(weight.dtype, weight.out, weight.in, weight.by_input());
  const auto* bytes = static_cast<const std::byte*>(weight.data);
  PackedMatrix matrix{
      bytes,
      is_block(weight.dtype) ? reinterpret_cast<const uint32_t*>(bytes + parts.factors) : nullptr,
      reinterpret_cast<const uint32_t*>(bytes + parts.supers),
      reinterpret_cast<const uint2*>(bytes + parts.upper),
      weight.scales,
      static_cast<int>(weight.in / kPackedInputs),
      0,
      31,
      static_cast<int>(weight.out),
      packed_scales(weight),
      weight.dtype == DType::nf4};
  if (weight.scales == nullptr) return matrix;
  matrix.groups = static_cast<int>(weight.in / weight.group);
  if (matrix.groups == 1) return matrix;
  matrix.group_shift = 0;
  while ((int64_t{1} << matrix.group_shift) < weight.group) matrix.group_shift++;
  return matrix;
}

#ifdef FULMAR_DEVICE_CODE

__device__ __forceinline__ uint32_t word_of(__half2 h) {
  uint32_t word;
  memcpy(&word, &h, sizeof(word));
  return word;
}
template <int kVectors>
__device__ __forceinline__ uint32_t word_at(const uint4 (&v)[kVectors], int i) {
  const uint4& of = v[i / 4];
  return i % 4 == 0 ? of.x : i % 4 == 1 ? of.y : i % 4 == 2 ? of.z : of.w;
}
__device__ __forceinline__ __half2 half2_of(uint32_t word) {
  __half2 h;
  memcpy(&h, &word, sizeof(word));
  return h;
}
// Returns both halves of a word as an operand of T.
template <class T>
__device__ __forceinline__ uint32_t operand(__half2 h);
template <>
__device__ __forceinline__ uint32_t operand<Half>(__half2 h) {
  return word_of(h);
}
template <>
__device__ __forceinline__ uint32_t operand<BFloat>(__half2 h) {
  const float2 f = __half22float2(h);
  return pack_floats<BFloat>(f.x, f.y);
}

// Pairs of the halves 1024 and 64: an integer n added to their bits adds n, and n / 16.
constexpr uint32_t kMagic1024 = 0x64006400, kMagic64 = 0x54005400;
constexpr uint32_t in_both(uint32_t bits) { return bits | bits << 16; }

// Subtracts; both arguments are bits, since the compiler does not fold a constant's conversion.
__device__ __forceinline__ __half2 less(uint32_t word, uint32_t by) {
  return __hsub2(half2_of(word), half2_of(by));
}

// Returns the level of a code of nf4, or of iq4_nl. Tables of the host have no address on the device.
template <int kCode>
__device__ __forceinline__ float level_of_code(bool nf4) {
  constexpr float kLevel = kNf4Levels[kCode], kOtherLevel = static_cast<float>(kIq4Levels[kCode]);
  return nf4 ? kLevel : kOtherLevel;
}
template <int... kCodes>
__device__ __forceinline__ float level_of(int code, bool nf4, std::integer_sequence<int, kCodes...>) {
  float level = 0;
  ((level = code == kCodes ? level_of_code<kCodes>(nf4) : level), ...);
  return level;
}
__device__ __forceinline__ float level_of(int code, bool nf4) {
  return level_of(code, nf4, std::make_integer_sequence<int, 16>{});
}

// Fills a table in shared memory: the levels of both codes of a byte, the low nibble's first.
constexpr int kLevelPairs = 256;
__device__ __forceinline__ void fill_level_pairs(uint32_t (&table)[kLevelPairs], bool nf4) {
  for (int i = threadIdx.x; i < kLevelPairs; i += blockDim.x) {
    table[i] = pack_floats<Half>(level_of(i & 15, nf4), level_of(i >> 4, nf4));
  }
}

// Scale and minimum of an output, each in both halves.
struct PackedFactor {
  __half2 scale, least;
};

// Returns an f32 scale in both halves.
template <CodeKind kKind>
__device__ __forceinline__ __half2 both_halves(float scale) {
  const Half half = from_float<Half>(scale * (kKind == CodeKind::float8 ? kFloat8Lift : 1.0f));
  return __halves2half2(half, half);
}
// Returns q4_k's scale and minimum from their bytes, the low half of `bytes`, and from (d, dmin).
__device__ __forceinline__ PackedFactor affine_factor(uint32_t bytes, uint32_t super) {
  const __half2 small = less(__byte_perm(bytes, kMagic1024, 0x5150), kMagic1024);
  const __half2 both = __hmul2(small, half2_of(super));
  return {__low2half2(both), __high2half2(both)};
}

// Returns the four codes in the low halves of both halves of a word, less the offset that makes them
// unsigned: nibbles 0, 1, 2, 3 of both.
template <CodeKind kKind>
__device__ __forceinline__ void split_nibbles(uint32_t word, __half2 (&out)[4]) {
  constexpr uint32_t kCodeMiddle = kKind == CodeKind::nibbles ? 8 : 0;
  constexpr uint32_t kLow = kMagic1024 + in_both(kCodeMiddle), kHigh = kMagic64 + in_both(kCodeMiddle * 16);
  const uint32_t upper = word >> 8;
  out[0] = less(and_or<0x000f000f, kMagic1024>(word), kLow);
  out[1] = less(and_or<0x00f000f0, kMagic64>(word), kHigh);
  out[2] = less(and_or<0x000f000f, kMagic1024>(upper), kLow);
  out[3] = less(and_or<0x00f000f0, kMagic64>(upper), kHigh);
}

template <CodeKind kKind>
__device__ __forceinline__ __half2 scaled(__half2 x, const PackedFactor& by) {
  return kKind == CodeKind::affine ? __hfma2(x, by.scale, __hneg2(by.least)) : __hmul2(x, by.scale);
}

// Widens eight 4-bit codes, a word of fragments, to four pairs: (0, 1), (2, 3), ... `table`: for levels only.
template <CodeKind kKind>
__device__ __forceinline__ void widen_nibbles(uint32_t word, const uint32_t* table, __half2 (&out)[4]) {
  if constexpr (kKind == CodeKind::levels) {
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = half2_of(table[word >> 8 * i & 255]);
  } else {
    split_nibbles<kKind>(word, out);
  }
}

// Widens two codes of 8 bits: bytes 0 and 1 of a word, or 2 and 3.
template <CodeKind kKind>
__device__ __forceinline__ __half2 widen_bytes(uint32_t word, bool upper) {
  if constexpr (kKind == CodeKind::float8) {
    const uint32_t high = __byte_perm(word, 0, upper ? 0x3424 : 0x1404);
    return half2_of((high & 0x80008000) | (high >> 1 & 0x3f803f80));
  }
  return less(__byte_perm(word, kMagic1024, upper ? 0x5352 : 0x5150), kMagic1024 + in_both(128));
}

// Widens eight codes of q6_k: low nibbles, and upper bits from bit 0 on.
__device__ __forceinline__ void widen_six(uint32_t word, uint32_t upper, __half2 (&out)[4]) {
  const uint32_t top[4] = {upper << 4, upper << 2, upper, upper >> 2};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const uint32_t code = and_or<0x000f000f, kMagic1024>(word >> 4 * i) | (top[i] & 0x00300030);
    out[i] = less(code, kMagic1024 + in_both(32));
  }
}
// Returns q6_k's two factors: signed scales in the low half of `bytes`, times d.
__device__ __forceinline__ void six_factors(uint32_t bytes, uint32_t super, PackedFactor (&by)[2]) {
  const __half2 small = less(__byte_perm(bytes ^ 0x8080, kMagic1024, 0x5150), kMagic1024 + in_both(128));
  const __half2 both = __hmul2(small, __low2half2(half2_of(super)));
  by[0].scale = __low2half2(both), by[1].scale = __high2half2(both);
}

constexpr bool has_supers(CodeKind kind) { return kind == CodeKind::affine || kind == CodeKind::six; }

// A lane's part of a piece of a tile: 32 inputs of the outputs g and g + 8, and the scales of all groups.
template <CodeKind kKind>
struct PackedPiece {
  static constexpr int kVectors = bits_of(kKind) / 4;
  uint4 low[kVectors], high[kVectors];
  uint4 scales[has_supers(kKind) ? 1 : 2];  // factors in memory order, or f32 scales of g and of g + 8
  uint32_t super[2];
  uint2 upper[kKind == CodeKind::six ? 2 : 1];
};

// Returns whether a kind's scales are factors, stored in one piece with the codes.
template <CodeKind kKind, ScaleLayout kScales = ScaleLayout::any>
__device__ __forceinline__ bool has_factors(const PackedMatrix& m) {
  if constexpr (kScales != ScaleLayout::any) return kScales == ScaleLayout::factors;
  return has_supers(kKind) || (kKind != CodeKind::float8 && m.layout == ScaleLayout::factors);
}

// Loads an output's f32 scales of a piece from its `row` of scales, one, two or four of them; aligned, since
// a row is whole pieces. scale_at picks one after the load has completed: a copy here would wait for it.
__device__ __forceinline__ void load_scales(uint4& to, const float* row, int piece, ScaleLayout layout,
                                            int group_shift) {
  if (layout == ScaleLayout::group) {
    to = reinterpret_cast<const uint4*>(row)[piece];
  } else if (layout == ScaleLayout::pair) {
    const uint2 both = reinterpret_cast<const uint2*>(row)[piece];
    to.x = both.x, to.y = both.y;
  } else {
    to.x = __float_as_uint(row[piece * kPackedInputs >> group_shift]);
  }
}
__device__ __forceinline__ const float* scales_of_row(const PackedMatrix& m, int row) {
  return m.scales + static_cast<int64_t>(min(row, m.outs - 1)) * m.groups;
}
// Returns the scale of the piece's group j of 32 inputs.
__device__ __forceinline__ float scale_at(const uint4& scales, ScaleLayout layout, int j) {
  const uint32_t own = j == 0 ? scales.x : j == 1 ? scales.y : j == 2 ? scales.z : scales.w;
  const uint32_t of_pair = j < 2 ? scales.x : scales.y;
  return __uint_as_float(layout == ScaleLayout::group  ? own
                         : layout == ScaleLayout::pair ? of_pair
                                                       : scales.x);
}

// Loads the pieces of a tile, each lane its own part.
template <CodeKind kKind, ScaleLayout kScales = ScaleLayout::any>
class TileSource {
 public:
  TileSource() = default;
  __device__ __forceinline__ TileSource(const PackedMatrix& m, int tile) {
    const int lane = threadIdx.x % kWarp, g = lane / 4, row = tile * kPackedOuts + g;
    const int64_t first = static_cast<int64_t>(tile) * m.pieces;
    codes_ = reinterpret_cast<const uint4*>(m.codes) + first * kCodes + lane;
    if constexpr (kKind == CodeKind::six) upper_ = m.upper + first * (2 * kWarp) + lane;
    if constexpr (has_supers(kKind)) supers_ = m.supers + first / 2 * kPackedOuts + g;
    factors_ = nullptr;
    if (has_factors<kKind, kScales>(m)) {
      factors_ = reinterpret_cast<const uint4*>(m.factors) + first * kFactors + g;
    } else if constexpr (!has_supers(kKind)) {
      scales_[0] = scales_of_row(m, row), scales_[1] = scales_of_row(m, row + 8);
      layout_ = m.layout, group_shift_ = m.group_shift;
    }
  }

  __device__ __forceinline__ void load(PackedPiece<kKind>& to, int piece) const {
    const uint4* codes = codes_ + static_cast<int64_t>(piece) * kCodes;
#pragma unroll
    for (int v = 0; v < kVectors; v++) {
      to.low[v] = __ldcs(codes + v * kWarp);
      to.high[v] = __ldcs(codes + (kVectors + v) * kWarp);
    }
    if constexpr (kKind == CodeKind::six) {
      const uint2* upper = upper_ + piece * (2 * kWarp);
      to.upper[0] = __ldcs(upper), to.upper[1] = __ldcs(upper + kWarp);
    }
    if (kScales == ScaleLayout::any ? factors_ != nullptr : kScales == ScaleLayout::factors) {
      to.scales[0] = __ldcs(factors_ + piece * kFactors);
      if constexpr (has_supers(kKind)) {
        const uint32_t* super = supers_ + piece / 2 * kPackedOuts;
        to.super[0] = super[0], to.super[1] = super[8];
      }
    } else if constexpr (!has_supers(kKind)) {
      const ScaleLayout layout = kScales == ScaleLayout::any ? layout_ : kScales;
      load_scales(to.scales[0], scales_[0], piece, layout, group_shift_);
      load_scales(to.scales[1], scales_[1], piece, layout, group_shift_);
    }
  }

 private:
  static constexpr int kVectors = PackedPiece<kKind>::kVectors;
  static constexpr int kCodes = 2 * kVectors * kWarp, kFactors = 8;  // vectors of a piece

  const uint4 *codes_, *factors_;
  const uint32_t* supers_;
  const uint2* upper_;
  const float* scales_[2];
  ScaleLayout layout_;
  int group_shift_;
};

// Does the same for E4M3 codes in the order of files, a scale a row: a lane's 32 inputs are 16 neighbours in
// each half of a piece (stored_vector).
class StoredTileSource {
 public:
  StoredTileSource() = default;
  __device__ __forceinline__ StoredTileSource(const PackedMatrix& m, int tile) {
    const int lane = threadIdx.x % kWarp, first = tile * kPackedOuts + lane / 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int64_t row = min(first + 8 * i, m.outs - 1);
      codes_[i] = reinterpret_cast<const uint4*>(m.codes + row * m.pieces * kPackedInputs) + lane % 4;
      scales_[i] = m.scales + row;
    }
  }

  __device__ __forceinline__ void load(PackedPiece<CodeKind::float8>& to, int piece) const {
    constexpr int kVectors = kPackedInputs / 16, kHalf = kVectors / 2;
#pragma unroll
    for (int v = 0; v < 2; v++) {
      to.low[v] = __ldcs(codes_[0] + piece * kVectors + v * kHalf);
      to.high[v] = __ldcs(codes_[1] + piece * kVectors + v * kHalf);
    }
    to.scales[0].x = __float_as_uint(*scales_[0]), to.scales[1].x = __float_as_uint(*scales_[1]);
  }

 private:
  const uint4* codes_[2];
  const float* scales_[2];
};

// Computes the factors of group j of output g (which = 0) or g + 8; of q6_k's group, one for either half.
template <CodeKind kKind>
__device__ __forceinline__ void factors_of(const PackedPiece<kKind>& piece, ScaleLayout layout, int which,
                                           int j, PackedFactor (&by)[2]) {
  const uint32_t word = word_at(piece.scales, 2 * which + j / 2);
  if constexpr (kKind == CodeKind::six) {
    six_factors(word >> j % 2 * 16, piece.super[which], by);
    return;
  }
  if constexpr (kKind == CodeKind::affine) {
    by[0] = affine_factor(word >> j % 2 * 16, piece.super[which]);
  } else if (kKind != CodeKind::float8 && layout == ScaleLayout::factors) {
    const __half2 both = half2_of(word);
    by[0].scale = j % 2 != 0 ? __high2half2(both) : __low2half2(both);
  } else {
    by[0].scale = both_halves<kKind>(scale_at(piece.scales[which], layout, j));
  }
  by[1] = by[0];
}

// Returns whether codes may go unscaled into the sums, which are then scaled: a piece has one scale.
constexpr bool scales_sums(ScaleLayout layout) { return layout == ScaleLayout::piece; }
// Returns an f32 scale for sums of codes that widen_group has widened.
template <CodeKind kKind>
__device__ __forceinline__ float sum_scale(uint32_t bits) {
  return __uint_as_float(bits) * (kKind == CodeKind::float8 ? kFloat8Lift : 1.0f);
}
// Returns the same of output g (which = 0) or g + 8.
template <CodeKind kKind>
__device__ __forceinline__ float sum_scale(const PackedPiece<kKind>& piece, int which) {
  return sum_scale<kKind>(piece.scales[which].x);
}

// Widens the codes of group j of output g (which = 0) or g + 8 to pairs of inputs, in their order.
template <CodeKind kKind>
__device__ __forceinline__ void widen_group(const PackedPiece<kKind>& piece, int which, int j,
                                            const uint32_t* table, __half2 (&out)[4]) {
  const auto& codes = which == 0 ? piece.low : piece.high;
  if constexpr (bits_of(kKind) == 8) {
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = widen_bytes<kKind>(word_at(codes, 2 * j + i / 2), i % 2 != 0);
  } else if constexpr (kKind == CodeKind::six) {
    const uint2& upper = piece.upper[which];
    widen_six(word_at(codes, j), (j < 2 ? upper.x : upper.y) >> j % 2 * 8, out);
  } else {
    widen_nibbles<kKind>(word_at(codes, j), table, out);
  }
}

// Calls f(j, first, second) for each group j of 32 inputs, with the left operands (a0 to a3) of the products
// 2j and 2j + 1 of 16 inputs each; kScaled: times their scales. `layout` is the matrix's.
template <class T, ScaleLayout kScales = ScaleLayout::any, bool kScaled = !scales_sums(kScales),
          CodeKind kKind, class F>
__device__ __forceinline__ void widen_piece(const PackedPiece<kKind>& piece,
                                            [[maybe_unused]] ScaleLayout layout, const uint32_t* table,
                                            F&& f) {
#pragma unroll
  for (int j = 0; j < kPieceGroups; j++) {
    uint32_t a[2][4];
#pragma unroll
    for (int which = 0; which < 2; which++) {
      __half2 x[4];
      widen_group(piece, which, j, table, x);
      if constexpr (kScaled) {
        PackedFactor by[2]{};
        factors_of(piece, kScales == ScaleLayout::any ? layout : kScales, which, j, by);
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = scaled<kKind>(x[i], by[i / 2]);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) a[i / 2][i % 2 * 2 + which] = operand<T>(x[i]);
    }
    f(j, a[0], a[1]);
  }
}

// Returns where 16-byte vector `vector` of a row of inputs lies within the row in shared memory (swizzle):
// the eight rows that load_matrices reads hit different banks.
__device__ __forceinline__ int packed_input(int row, int vector) { return vector ^ (row & 7); }
// Returns the row, of eight, and the vector of group j whose address this lane passes to load_matrices.
__device__ __forceinline__ int matrix_row() { return threadIdx.x % 8; }
__device__ __forceinline__ int matrix_vector(int j) {
  return j * 4 + static_cast<int>(threadIdx.x) % kWarp / 8;
}

// Returns the vector, in the order of files, of the inputs of StoredTileSource's codes of group j.
__device__ __forceinline__ int stored_vector(int j) {
  return j / 2 * (kPackedInputs / 16) + static_cast<int>(threadIdx.x) % 4 * 2 + j % 2;
}

enum class CodeOrder : uint8_t { fragments, stored };
// Returns the row, of eight, whose inputs a lane loads, and its right operands of group j.
template <CodeOrder kOrder>
__device__ __forceinline__ int input_row() {
  return kOrder == CodeOrder::stored ? fragment_group() : matrix_row();
}
template <CodeOrder kOrder>
__device__ __forceinline__ uint4 lane_inputs(const uint4* row, int column, int j) {
  if constexpr (kOrder == CodeOrder::stored) return row[packed_input(column, stored_vector(j))];
  return load_matrices(row + packed_input(column, matrix_vector(j)));
}

#endif  // __CUDACC__

// Calls f(kind) with the kind as a constant.
template <class F>
void with_code_kind(CodeKind kind, F&& f) {
  switch (kind) {
    case CodeKind::bytes:
      return f(std::integral_constant<CodeKind, CodeKind::bytes>{});
    case CodeKind::float8:
      return f(std::integral_constant<CodeKind, CodeKind::float8>{});
    case CodeKind::nibbles:
      return f(std::integral_constant<CodeKind, CodeKind::nibbles>{});
    case CodeKind::levels:
      return f(std::integral_constant<CodeKind, CodeKind::levels>{});
    case CodeKind::affine:
      return f(std::integral_constant<CodeKind, CodeKind::affine>{});
    case CodeKind::six:
      return f(std::integral_constant<CodeKind, CodeKind::six>{});
    case CodeKind::none:
      FULMAR_CHECK(false, "a matrix that is not packed");
  }
}

// Calls f(kind, layout) with both as constants; `layout` is that of a matrix of the kind.
template <class F>
void with_code_kind(CodeKind kind, ScaleLayout layout, F&& f) {
  with_code_kind(kind, [&](auto constant) {
    const auto is = [&](auto one) { f(constant, one); };
    constexpr bool kFactors = constant() != CodeKind::float8,
                   kScales = constant() != CodeKind::affine && constant() != CodeKind::six;
    if constexpr (kFactors) {
      if (layout == ScaleLayout::factors) {
        return is(std::integral_constant<ScaleLayout, ScaleLayout::factors>{});
      }
    }
    if constexpr (kScales) {
      switch (layout) {
        case ScaleLayout::group:
          return is(std::integral_constant<ScaleLayout, ScaleLayout::group>{});
        case ScaleLayout::pair:
          return is(std::integral_constant<ScaleLayout, ScaleLayout::pair>{});
        case ScaleLayout::piece:
          return is(std::integral_constant<ScaleLayout, ScaleLayout::piece>{});
        default:
          break;
      }
    }
    FULMAR_CHECK(false, "scales of another kind");
  });
}

}  // namespace fulmar::gpu
