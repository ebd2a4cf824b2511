// Uses intrinsics, since Highway has no AMX. Weights are the left operand in the order of files, a row of
// terms for each output; packed inputs are the right one, pairs of terms side by side.
#include "cpu/linear_amx.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "cpu/transposed.h"

#if defined(__x86_64__) && defined(__linux__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own headers of intrinsics leave vectors uninitialised on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fulmar {

bool suits_amx(const Weight& weight) { return weight.plain16() && weight.in % kAmxDepth == 0; }

int64_t amx_block_rows(int64_t depth, int parts) {
  constexpr int64_t kPackedBytes = int64_t{3} << 19;
  return std::clamp(kPackedBytes / (depth * parts * 2) / kAmxRowTile * kAmxRowTile, kAmxRowTile, kPanelRows);
}

int64_t amx_packed_floats(int64_t rows, int64_t depth, int parts) {
  return (rows + kAmxTile - 1) / kAmxTile * kAmxTile * depth * parts / 2;
}

#if defined(__x86_64__) && defined(__linux__)

#define FULMAR_AMX __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")))
#define FULMAR_AMX_INLINE FULMAR_AMX __attribute__((always_inline)) inline

namespace {

constexpr int64_t kTileWords = kAmxTile * kAmxDepth / 2;  // of 32 bits
constexpr int64_t kTileBytes = kTileWords * 4, kRowBytes = 64;
constexpr int64_t kDepthTiles = kPanelDepth / kAmxDepth;  // of a range of kPanelDepth terms
constexpr int64_t kOutTiles = kAmxOutputs / kAmxTile, kRowTiles = kPanelRows / kAmxTile;
static_assert(kPanelDepth % kAmxDepth == 0 && kPanelRows % kAmxRowTile == 0 && kAmxRowTile % kAmxTile == 0);

// 32 numbers as sums of bf16, neighbours in pairs: the number rounded, then its remainder rounded, ...
constexpr int kMostParts = 3;
struct Bf16Parts {
  __m512i of[kMostParts];
};

FULMAR_AMX_INLINE __m512 widened(__m256i bf16) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

// Returns what rounding left over, or 0 where the number is not finite.
FULMAR_AMX_INLINE __m512 remainder_of(__m512 x, __m512 rounded) {
  constexpr int kNotFinite = 0x99;  // NaN of both kinds, both infinities
  const __mmask16 finite = _mm512_knot(_mm512_fpclass_ps_mask(rounded, kNotFinite));
  return _mm512_mask_sub_ps(_mm512_setzero_ps(), finite, x, rounded);
}

template <int kParts>
FULMAR_AMX_INLINE void split(__m512 first, __m512 second, Bf16Parts& to) {
  for (int i = 0; i < kParts; i++) {
    to.of[i] = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    if (i + 1 == kParts) break;
    first = remainder_of(first, widened(_mm512_castsi512_si256(to.of[i])));
    second = remainder_of(second, widened(_mm512_extracti64x4_epi64(to.of[i], 1)));
  }
}

// Transposes words [16][16].
FULMAR_AMX_INLINE void transpose(__m512i (&rows)[kAmxTile]) {
  __m512i pairs[kAmxTile], fours[kAmxTile];
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  constexpr int kEven = 0x88, kOdd = 0xdd;  // lanes of 128 bits
  for (int j = 0; j < 4; j++) {
    const __m512i a = _mm512_shuffle_i32x4(fours[j], fours[4 + j], kEven);
    const __m512i b = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], kEven);
    const __m512i c = _mm512_shuffle_i32x4(fours[j], fours[4 + j], kOdd);
    const __m512i d = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], kOdd);
    rows[j] = _mm512_shuffle_i32x4(a, b, kEven), rows[8 + j] = _mm512_shuffle_i32x4(a, b, kOdd);
    rows[4 + j] = _mm512_shuffle_i32x4(c, d, kEven), rows[12 + j] = _mm512_shuffle_i32x4(c, d, kOdd);
  }
}

// Returns the address of the tiles of 16 rows: for each kAmxDepth terms one tile per part.
float* packed_rows(const BlockedProduct& p, int64_t row) { return p.packed + row * p.depth * p.parts / 2; }

template <int kParts>
FULMAR_AMX void pack_rows(const BlockedProduct& p, int64_t row, int64_t first, int64_t last) {
  const int64_t rows = std::min(p.rows - row, kAmxTile);
  for (int64_t k = first; k < last; k += kAmxDepth) {
    __m512i words[kParts][kAmxTile];
    for (int64_t r = 0; r < kAmxTile; r++) {
      Bf16Parts one;
      const float* const from = p.in + (row + r) * p.in_stride + k;
      const __m512 none = _mm512_setzero_ps();
      split<kParts>(r < rows ? _mm512_loadu_ps(from) : none, r < rows ? _mm512_loadu_ps(from + 16) : none,
                    one);
      for (int i = 0; i < kParts; i++) words[i][r] = one.of[i];
    }
    float* const to = packed_rows(p, row) + k / kAmxDepth * kParts * kTileWords;
    for (int i = 0; i < kParts; i++) {
      transpose(words[i]);
      for (int64_t w = 0; w < kAmxTile; w++) {
        _mm512_store_si512(to + i * kTileWords + w * kAmxTile, words[i][w]);
      }
    }
  }
}

// The weights of a range of terms as left operands.
struct WeightTiles {
  alignas(64) std::byte of[kOutTiles][kDepthTiles][2][kTileBytes];  // high, low
};

// Loads kAmxDepth terms, from `k` on, of kAmxTile outputs from `output` on, of which `outputs` exist.
FULMAR_AMX_INLINE void load_weights(const BlockedProduct& p, int64_t output, int64_t outputs, int64_t k,
                                    __m512i (&rows)[kAmxTile]) {
  constexpr int64_t kWeightBytes = 2, kStripBytes = kStripOutputs * kWeightBytes;
  if (p.transposed) {
    const std::byte* const from = p.weight + (output / kStripOutputs * p.depth + k) * kStripBytes +
                                  output % kStripOutputs * kWeightBytes;
    const auto term = [&](int64_t at) { return reinterpret_cast<const __m256i*>(from + at * kStripBytes); };
    for (int64_t i = 0; i < kAmxTile; i++) {
      const __m512i even = _mm512_cvtepu16_epi32(_mm256_loadu_si256(term(2 * i)));
      const __m512i odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256(term(2 * i + 1)));
      rows[i] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    }
    transpose(rows);
    return;
  }
  for (int64_t o = 0; o < kAmxTile; o++) {
    const std::byte* const from = p.weight + ((output + o) * p.depth + k) * kWeightBytes;
    rows[o] = o < outputs ? _mm512_loadu_si512(from) : _mm512_setzero_si512();
  }
}

FULMAR_AMX void fill(const BlockedProduct& p, const PanelBlock& block, int64_t first, int64_t tiles,
                     WeightTiles& to) {
  for (int64_t o = block.output; o < block.output_end; o += kAmxTile) {
    for (int64_t k = 0; k < tiles; k++) {
      __m512i rows[kAmxTile];
      load_weights(p, o, block.output_end - o, first + k * kAmxDepth, rows);
      auto& [high, low] = to.of[(o - block.output) / kAmxTile][k];
      for (int64_t i = 0; i < kAmxTile; i++) {
        if (p.dtype == DType::bf16) {
          _mm512_store_si512(high + i * kRowBytes, rows[i]);
          continue;
        }
        Bf16Parts one;
        split<2>(_mm512_cvtph_ps(_mm512_castsi512_si256(rows[i])),
                 _mm512_cvtph_ps(_mm512_extracti64x4_epi64(rows[i], 1)), one);
        _mm512_store_si512(high + i * kRowBytes, one.of[0]);
        _mm512_store_si512(low + i * kRowBytes, one.of[1]);
      }
    }
  }
}

// Tells compilers that implement tile instructions as bare assembly that these access memory.
FULMAR_AMX_INLINE void memory_fence(const void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

// Configures tiles 0 to 3 as sums (outputs x rows), 4 and 5 as weights, 6 and 7 as inputs: two each, or one.
FULMAR_AMX_INLINE void set_tiles() {
  struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } config;
  for (int i = 0; i < 8; i++) config.row_bytes[i] = kRowBytes, config.rows[i] = kAmxTile;
  memory_fence(&config);
  _tile_loadconfig(&config);
}

template <bool kTwoOutputs, bool kTwoRows>
FULMAR_AMX_INLINE void multiply_loaded() {
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kTwoRows) _tile_dpbf16ps(1, 4, 7);
  if constexpr (kTwoOutputs) _tile_dpbf16ps(2, 5, 6);
  if constexpr (kTwoOutputs && kTwoRows) _tile_dpbf16ps(3, 5, 7);
}

// Loads a pair of left operands of one part, high or low.
template <bool kTwo>
FULMAR_AMX_INLINE void load_left(const WeightTiles& from, int64_t k, int part) {
  _tile_loadd(4, from.of[0][k][part], kRowBytes);
  if constexpr (kTwo) _tile_loadd(5, from.of[1][k][part], kRowBytes);
}
template <bool kTwo>
FULMAR_AMX_INLINE void load_right(const float* first, int64_t next) {
  _tile_loadd(6, first, kRowBytes);
  if constexpr (kTwo) _tile_loadd(7, first + next, kRowBytes);
}

// Adds up two tiles of outputs by two of rows, or fewer, over a range of terms: sums
// [outputs][rows] of a tile, then those of the second outputs. The low part of split weights is
// multiplied by all parts of the inputs but the last.
template <int kParts, bool kSplitWeights, bool kTwoOutputs, bool kTwoRows>
FULMAR_AMX void multiply_tiles(const WeightTiles& weight, const float* in, int64_t next_rows, int64_t tiles,
                               bool fresh, float (*sums)[kOutTiles][kTileWords]) {
  memory_fence(sums);
  if (fresh) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums[0][0], kRowBytes);
    if constexpr (kTwoRows) _tile_loadd(1, sums[1][0], kRowBytes);
    if constexpr (kTwoOutputs) _tile_loadd(2, sums[0][1], kRowBytes);
    if constexpr (kTwoOutputs && kTwoRows) _tile_loadd(3, sums[1][1], kRowBytes);
  }
  for (int64_t k = 0; k < tiles; k++, in += kParts * kTileWords) {
    load_right<kTwoRows>(in, next_rows);
    if constexpr (kSplitWeights) {
      load_left<kTwoOutputs>(weight, k, 1);
      multiply_loaded<kTwoOutputs, kTwoRows>();
    }
    load_left<kTwoOutputs>(weight, k, 0);
    multiply_loaded<kTwoOutputs, kTwoRows>();
    if constexpr (kParts > 1) {
      load_right<kTwoRows>(in + kTileWords, next_rows);
      multiply_loaded<kTwoOutputs, kTwoRows>();
    }
    if constexpr (kParts > 2) {
      if constexpr (kSplitWeights) {
        load_left<kTwoOutputs>(weight, k, 1);
        multiply_loaded<kTwoOutputs, kTwoRows>();
        load_left<kTwoOutputs>(weight, k, 0);
      }
      load_right<kTwoRows>(in + 2 * kTileWords, next_rows);
      multiply_loaded<kTwoOutputs, kTwoRows>();
    }
  }
  _tile_stored(0, sums[0][0], kRowBytes);
  if constexpr (kTwoRows) _tile_stored(1, sums[1][0], kRowBytes);
  if constexpr (kTwoOutputs) _tile_stored(2, sums[0][1], kRowBytes);
  if constexpr (kTwoOutputs && kTwoRows) _tile_stored(3, sums[1][1], kRowBytes);
  memory_fence(sums);
}

using MultiplyTiles = decltype(&multiply_tiles<1, true, true, true>);

template <int kParts>
MultiplyTiles multiply_for(bool split_weights, bool two_outputs, bool two_rows) {
  constexpr MultiplyTiles kOf[2][2][2] = {
      {{multiply_tiles<kParts, false, false, false>, multiply_tiles<kParts, false, false, true>},
       {multiply_tiles<kParts, false, true, false>, multiply_tiles<kParts, false, true, true>}},
      {{multiply_tiles<kParts, true, false, false>, multiply_tiles<kParts, true, false, true>},
       {multiply_tiles<kParts, true, true, false>, multiply_tiles<kParts, true, true, true>}}};
  return kOf[split_weights ? 1 : 0][two_outputs ? 1 : 0][two_rows ? 1 : 0];
}

// Calls f(parts) with the product's number of parts as a constant.
template <class F>
void with_parts(const BlockedProduct& p, F&& f) {
  FULMAR_CHECK(p.parts >= 1 && p.parts <= kMostParts);
  if (p.parts == 1) return f(std::integral_constant<int, 1>{});
  if (p.parts == 2) return f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, 3>{});
}

// Stores [outputs][rows] of a tile to those rows of the output that exist.
FULMAR_AMX void store_tile(const float* sums, const BlockedProduct& p, int64_t row, int64_t output,
                           int64_t outputs) {
  __m512i words[kAmxTile];
  for (int64_t i = 0; i < kAmxTile; i++) words[i] = _mm512_load_si512(sums + i * kAmxTile);
  transpose(words);
  const auto mask = static_cast<__mmask16>((1u << outputs) - 1);
  const int64_t rows = std::min(p.rows - row, kAmxTile);
  for (int64_t r = 0; r < rows; r++) {
    _mm512_mask_storeu_epi32(p.out + (row + r) * p.out_stride + output, mask, words[r]);
  }
}

template <int kParts>
FULMAR_AMX void multiply_block(const BlockedProduct& p, const PanelBlock& block) {
  WeightTiles weight;
  alignas(64) float sums[kRowTiles][kOutTiles][kTileWords];
  const bool split_weights = p.dtype == DType::f16, two_outputs = block.output_end - block.output > kAmxTile;
  const int64_t row_tiles = (block.row_end - block.row + kAmxTile - 1) / kAmxTile;
  set_tiles();
  for (int64_t first = 0; first < p.depth; first += kPanelDepth) {
    const int64_t tiles = std::min(kPanelDepth, p.depth - first) / kAmxDepth;
    fill(p, block, first, tiles, weight);
    for (int64_t t = 0; t < row_tiles; t += 2) {
      const float* const in =
          packed_rows(p, block.row + t * kAmxTile) + first / kAmxDepth * kParts * kTileWords;
      const int64_t next_rows = kAmxTile * p.depth * kParts / 2;
      multiply_for<kParts>(split_weights, two_outputs, t + 1 < row_tiles)(weight, in, next_rows, tiles,
                                                                          first == 0, sums + t);
    }
  }
  _tile_release();
  for (int64_t t = 0; t < row_tiles; t++) {
    for (int64_t o = block.output; o < block.output_end; o += kAmxTile) {
      store_tile(sums[t][(o - block.output) / kAmxTile], p, block.row + t * kAmxTile, o,
                 std::min(block.output_end - o, kAmxTile));
    }
  }
}

bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0, more = 0, unused = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  constexpr unsigned kAmx = 1u << 22 | 1u << 24;                           // bf16, tiles
  if ((b & kAvx512) != kAvx512 || (d & kAmx) != kAmx) return false;
  if (__get_cpuid_count(7, 1, &more, &unused, &unused, &unused) == 0) return false;
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  return (more & kAvx512Bf16) != 0;
}

// Asks for the use of tiles; returns whether the system saves them and vectors of 512 bits.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return false;
  uint32_t saved = 0, unused = 0;
  asm volatile("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));
  constexpr uint32_t kSaved = 7u << 5 | 3u << 17;
  return (saved & kSaved) == kSaved;
}

}  // namespace

bool has_amx() {
  static const bool has = has_instructions() && may_use_tiles();
  return has;
}

void pack_amx(const BlockedProduct& product, int64_t row, int64_t first, int64_t last) {
  const int64_t end = std::min(row + kAmxRowTile, product.rows);
  with_parts(product, [&](auto parts) {
    for (; row < end; row += kAmxTile) pack_rows<parts()>(product, row, first, last);
  });
}

void multiply_amx(const BlockedProduct& product, const PanelBlock& block) {
  with_parts(product, [&](auto parts) { multiply_block<parts()>(product, block); });
}

#else

bool has_amx() { return false; }
void pack_amx(const BlockedProduct&, int64_t, int64_t, int64_t) { FULMAR_CHECK(has_amx()); }
void multiply_amx(const BlockedProduct&, const PanelBlock&) { FULMAR_CHECK(has_amx()); }

#endif

}  // namespace fulmar
