// Tiles of outputs x rows held in registers: each weight is widened once for all rows of a tile.
#include "cpu/linear_dot.h"

#include <algorithm>

#include "cpu/simd_targets.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_dot.cpp"
#include "hwy/foreach_target.h"
#include "cpu/block_decode-inl.h"
#include "cpu/weight_load-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr int kTileOutputs = 4;
constexpr int kGroupRows = kManyRegisters ? 6 : 3;  // whose sums fit into registers with one weight
constexpr size_t kWays = 4;  // independent sums of a single row, to hide the latency of one
constexpr size_t kLineBytes = 64;
constexpr int64_t kBlockBytes = 32 * 1024;  // weights that the groups share in the second level
constexpr int64_t kPartDepth = 1024;        // terms of a group's rows that stay in the first level
constexpr int kSecondLevel = 2;             // the first level tracks too few misses to keep memory busy

// The operands of a tile: `depth` terms of weight rows `weight_stride` apart and rows `in_stride` apart.
template <class E>
struct Tile {
  const E* weight = nullptr;
  size_t weight_stride = 0;
  const float* in = nullptr;
  size_t in_stride = 0;
  size_t depth = 0;
  float* out = nullptr;
  size_t out_stride = 0;
  bool fresh = true;    // else the sums are added to what `out` holds
  size_t distance = 0;  // bytes from the weights to those prefetched
};

// Adds a vector of terms, or the `rest` of them at the end of the rows.
template <bool kIsRest, int kOutputs, int kRows, class E>
HWY_INLINE void add_terms(const Tile<E>& t, size_t k, F32Vec (&sum)[kRows][kOutputs]) {
  const size_t rest = t.depth - k;
  F32Vec x[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    const float* const from = t.in + r * t.in_stride + k;
    x[r] = kIsRest ? load_weights_tail(from, rest) : load_weights(from);
  }
  for (size_t o = 0; o < kOutputs; ++o) {
    const E* const from = t.weight + o * t.weight_stride + k;
    const F32Vec w = kIsRest ? load_weights_tail(from, rest) : load_weights(from);
    for (size_t r = 0; r < kRows; ++r) sum[r][o] = hn::MulAdd(w, x[r], sum[r][o]);
  }
}

template <size_t kCount>
HWY_INLINE void clear(F32Vec (&sum)[kCount]) {
  for (auto& s : sum) s = hn::Zero(F32());
}

HWY_INLINE void put_sum(F32Vec sum, bool fresh, float* to) {
  const float total = hn::GetLane(hn::SumOfLanes(F32(), sum));
  *to = fresh ? total : *to + total;
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void put_sums(const F32Vec (&sum)[kTileOutputs], bool fresh, float* to) {
  for (int o = 0; o < kTileOutputs; ++o) put_sum(sum[o], fresh, to + o);
}
#else
// Returns the blocks of 128 bits added to each other, halves first.
template <class D>
HWY_INLINE hn::Vec<hn::Full128<float>> add_blocks(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return add_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// Adds the lanes of four vectors at once: transposed like a 4 x 4 matrix within blocks, then block onto
// block.
HWY_INLINE void put_sums(const F32Vec (&sum)[kTileOutputs], bool fresh, float* to) {
  const F32 d;
  const hn::Full128<float> four;
  const hn::RepartitionToWide<F32> wide;
  const auto pair = [&](F32Vec a, F32Vec b) {
    return hn::BitCast(wide, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto ab = pair(sum[0], sum[1]), ce = pair(sum[2], sum[3]);
  const F32Vec all = hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, ab, ce)),
                             hn::BitCast(d, hn::InterleaveUpper(wide, ab, ce)));
  const auto total = add_blocks(d, all);
  hn::StoreU(fresh ? total : hn::Add(hn::LoadU(four, to), total), four, to);
}
#endif

// Prefetches t.distance bytes ahead of one vector of each of the tile's weight rows.
template <class E>
HWY_INLINE void fetch_ahead(const Tile<E>& t, size_t k, size_t outputs, size_t lanes) {
  for (size_t o = 0; o < outputs; ++o) {
    const auto* const at =
        reinterpret_cast<const std::byte*>(t.weight + o * t.weight_stride + k) + t.distance;
    for (size_t line = 0; line < lanes * sizeof(E); line += kLineBytes) {
      __builtin_prefetch(at + line, 0, kSecondLevel);
    }
  }
}

// Computes kOutputs x kRows dot products.
template <int kOutputs, int kRows, bool kFetch, class E>
HWY_INLINE void multiply_tile(const Tile<E>& t) {
  const size_t lanes = hn::Lanes(F32());
  F32Vec sum[kRows][kOutputs];
  for (auto& row : sum) clear(row);
  size_t k = 0;
  for (; k + lanes <= t.depth; k += lanes) {
    if constexpr (kFetch) fetch_ahead(t, k, kOutputs, lanes);
    add_terms<false>(t, k, sum);
  }
  if (k < t.depth) add_terms<true>(t, k, sum);
  for (size_t r = 0; r < kRows; ++r) {
    float* const to = t.out + r * t.out_stride;
    if constexpr (kOutputs == kTileOutputs) {
      put_sums(sum[r], t.fresh, to);
    } else {
      for (size_t o = 0; o < kOutputs; ++o) put_sum(sum[r][o], t.fresh, to + o);
    }
  }
}

// Computes `outputs` outputs of kRows rows.
template <int kRows, bool kFetch, class E>
HWY_INLINE void multiply_outputs(Tile<E> t, int64_t outputs) {
  int64_t o = 0;
  for (; o + kTileOutputs <= outputs; o += kTileOutputs) {
    multiply_tile<kTileOutputs, kRows, kFetch>(t);
    t.weight += kTileOutputs * t.weight_stride;
    t.out += kTileOutputs;
  }
  for (; o < outputs; ++o) {
    multiply_tile<1, kRows, kFetch>(t);
    t.weight += t.weight_stride;
    t.out += 1;
  }
}

// Computes `rows` rows, at most kRows.
template <int kRows, bool kFetch, class E>
HWY_INLINE void multiply_group(const Tile<E>& t, int64_t rows, int64_t outputs) {
  if (rows == kRows) return multiply_outputs<kRows, kFetch>(t, outputs);
  if constexpr (kRows > 1) multiply_group<kRows - 1, kFetch>(t, rows, outputs);
}

// Returns the least multiple of `step` bytes that covers the latency of memory. Weight rows are contiguous:
// prefetched that far ahead, in steps of whole tiles, every line is fetched once.
size_t distance_ahead(size_t step) {
  constexpr size_t kLeast = 4096;
  return step == 0 ? 0 : (kLeast + step - 1) / step * step;
}

// Computes the outputs [first, last) of every group, whose rows use the same weights one after the other; the
// first group prefetches later weights.
template <class E>
void multiply_block(const DotProduct& p, int64_t first, int64_t last) {
  const int64_t groups = (p.rows + kGroupRows - 1) / kGroupRows;
  Tile<E> tile = {.weight_stride = static_cast<size_t>(p.depth),
                  .in_stride = static_cast<size_t>(p.in_stride),
                  .out_stride = static_cast<size_t>(p.out_stride),
                  .distance = distance_ahead(static_cast<size_t>(kTileOutputs * p.depth) * sizeof(E))};
  for (int64_t k = 0; k == 0 || k < p.depth; k += kPartDepth) {
    tile.weight = reinterpret_cast<const E*>(p.weight) + first * p.depth + k;
    tile.depth = static_cast<size_t>(std::min(kPartDepth, p.depth - k));
    tile.fresh = k == 0;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t row = p.rows * group / groups, end = p.rows * (group + 1) / groups;
      tile.in = p.in + row * p.in_stride + k;
      tile.out = p.out + row * p.out_stride + first;
      if (group == 0) {
        multiply_group<kGroupRows, true>(tile, end - row, last - first);
      } else {
        multiply_group<kGroupRows, false>(tile, end - row, last - first);
      }
    }
  }
}

template <class E>
void multiply_rows(const DotProduct& p, int64_t first, int64_t last) {
  const int64_t row_bytes = p.depth * static_cast<int64_t>(sizeof(E));
  const int64_t tile_bytes = std::max<int64_t>(1, kTileOutputs * row_bytes);
  const int64_t outputs = std::max<int64_t>(1, kBlockBytes / tile_bytes) * kTileOutputs;
  for (int64_t o = first; o < last; o += outputs) {
    multiply_block<E>(p, o, std::min(o + outputs, last));
  }
}

// Returns one output of a single row; prefetches the weights `distance` bytes ahead.
template <class E>
HWY_INLINE float dot_row(const E* weight, const float* in, size_t depth, size_t distance) {
  const size_t lanes = hn::Lanes(F32());
  F32Vec sum[kWays];
  clear(sum);
  size_t k = 0;
  for (; k + kWays * lanes <= depth; k += kWays * lanes) {
    const std::byte* const ahead = reinterpret_cast<const std::byte*>(weight + k) + distance;
    for (size_t line = 0; line < kWays * lanes * sizeof(E); line += kLineBytes) {
      __builtin_prefetch(ahead + line, 0, kSecondLevel);
    }
    for (size_t way = 0; way < kWays; ++way) {
      const size_t at = k + way * lanes;
      sum[way] = hn::MulAdd(load_weights(weight + at), load_weights(in + at), sum[way]);
    }
  }
  for (; k + lanes <= depth; k += lanes) {
    sum[0] = hn::MulAdd(load_weights(weight + k), load_weights(in + k), sum[0]);
  }
  if (k < depth) {
    sum[0] =
        hn::MulAdd(load_weights_tail(weight + k, depth - k), load_weights_tail(in + k, depth - k), sum[0]);
  }
  for (size_t way = 1; way < kWays; ++way) sum[0] = hn::Add(sum[0], sum[way]);
  return hn::GetLane(hn::SumOfLanes(F32(), sum[0]));
}

// Computes a single row, which reads its weights as one stream.
template <class E>
void multiply_row(const DotProduct& p, int64_t first, int64_t last) {
  const auto depth = static_cast<size_t>(p.depth);
  const size_t distance = distance_ahead(depth * sizeof(E));
  for (int64_t o = first; o < last; ++o) {
    p.out[o] = dot_row(reinterpret_cast<const E*>(p.weight) + o * p.depth, p.in, depth, distance);
  }
}

template <class E>
void multiply(const DotProduct& p, int64_t first, int64_t last) {
  if (p.rows == 1 && !p.one_order) return multiply_row<E>(p, first, last);
  multiply_rows<E>(p, first, last);
}

#if HWY_TARGET != HWY_SCALAR
// Computes a single row of FP8 with one scale a row, which reads weights like 16-bit numbers.
void multiply_row_f8(const DotProduct& p, int64_t first, int64_t last) {
  multiply_row<F8>(p, first, last);
  for (int64_t o = first; o < last; ++o) p.out[o] *= p.scales[o];
}
#endif

// Multiplies quantised weights: a tile's part of the rows is decoded into the first level and
// multiplied by every group of rows.
void multiply_decoded(const DotProduct& p, int64_t first, int64_t last) {
  static_assert(kPartDepth == kDecodedRun);
  HWY_ALIGN float decoded[kTileOutputs * kPartDepth];
  const CodedRows rows{p.dtype, p.weight, p.scales, p.group, p.depth};
  const int64_t groups = (p.rows + kGroupRows - 1) / kGroupRows;
  Tile<float> tile = {.weight = decoded,
                      .weight_stride = kPartDepth,
                      .in_stride = static_cast<size_t>(p.in_stride),
                      .out_stride = static_cast<size_t>(p.out_stride)};
  for (int64_t o = first; o < last; o += kTileOutputs) {
    const int64_t outputs = std::min<int64_t>(kTileOutputs, last - o);
    for (int64_t k = 0; k == 0 || k < p.depth; k += kPartDepth) {
      tile.depth = static_cast<size_t>(std::min(kPartDepth, p.depth - k));
      tile.fresh = k == 0;
      for (int64_t i = 0; i < outputs; ++i) decode_part(rows, o + i, k, tile.depth, decoded + i * kPartDepth);
      for (int64_t group = 0; group < groups; ++group) {
        const int64_t row = p.rows * group / groups, end = p.rows * (group + 1) / groups;
        tile.in = p.in + row * p.in_stride + k;
        tile.out = p.out + row * p.out_stride + o;
        multiply_group<kGroupRows, false>(tile, end - row, outputs);
      }
    }
  }
}

void DotOutputs(const DotProduct& p, int64_t first, int64_t last) {
  switch (p.dtype) {
    case DType::f32:
      return multiply<float>(p, first, last);
    case DType::f16:
      return multiply<hwy::float16_t>(p, first, last);
    case DType::bf16:
      return multiply<hwy::bfloat16_t>(p, first, last);
#if HWY_TARGET != HWY_SCALAR
    case DType::f8_e4m3:
      if (p.rows == 1 && p.group == p.depth && !p.one_order) return multiply_row_f8(p, first, last);
      return multiply_decoded(p, first, last);
#endif
    default:
      return multiply_decoded(p, first, last);
  }
}

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fulmar {

HWY_EXPORT(DotOutputs);

void dot_outputs(const DotProduct& product, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(DotOutputs)(product, first, last);
}

}  // namespace fulmar
#endif
