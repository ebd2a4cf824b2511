// Tiles of outputs x rows held in registers: each weight is widened once for all rows.
#include "cpu/linear_dot.h"

#include <algorithm>

#include "cpu/simd_targets.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_dot.cpp"
#include "hwy/foreach_target.h"
#include "cpu/weight_load-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr size_t kLineBytes = 64;
constexpr size_t kPrefetchBytes = 4096;  // least distance; covers the latency of memory
constexpr int kGroupRows = 4;            // whose sums fit into registers together
constexpr int64_t kGroupOutputs = 12;    // whose weights the groups share from the first level
constexpr int kSecondLevel = 2;          // the first level tracks too few misses to keep memory busy

// One row reads its weights as a single stream; more rows share each widened weight among more outputs.
constexpr int outputs_per_tile(int rows) { return rows == 1 ? 1 : rows == 2 || kManyRegisters ? 4 : 2; }

// Independent sums per output and row, enough to hide the latency of one.
constexpr int ways_per_tile(int rows) { return rows == 1 ? 4 : 1; }

// One vector's worth of terms, or the `rest` of them at the end of the rows, for a tile.
template <bool kIsRest, int kOutputs, int kRows, class E>
HWY_INLINE void add_terms(const E* weight, size_t depth, const float* in, size_t in_stride, size_t rest,
                          F32Vec (&sum)[kOutputs][kRows]) {
  F32Vec x[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    const float* const from = in + r * in_stride;
    x[r] = kIsRest ? load_weights_tail(from, rest) : load_weights(from);
  }
  for (size_t o = 0; o < kOutputs; ++o) {
    const E* const from = weight + o * depth;
    const F32Vec w = kIsRest ? load_weights_tail(from, rest) : load_weights(from);
    for (size_t r = 0; r < kRows; ++r) sum[o][r] = hn::MulAdd(w, x[r], sum[o][r]);
  }
}

// kOutputs x kRows dot products of length `depth`; `weight` and `in` point at the tile's first row.
template <int kOutputs, int kRows, class E>
HWY_INLINE void dot_tile(const E* weight, size_t depth, const float* in, size_t in_stride, float* out,
                         size_t out_stride) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  constexpr int kWays = ways_per_tile(kRows);
  // The same place in a following tile: rows are contiguous, so every line is fetched once and in time.
  const size_t tile_bytes = kOutputs * depth * sizeof(E);
  const size_t ahead = (kPrefetchBytes + tile_bytes - 1) / tile_bytes * tile_bytes;

  F32Vec sum[kWays][kOutputs][kRows];
  for (auto& way : sum) {
    for (auto& output : way) {
      for (auto& row : output) row = hn::Zero(d);
    }
  }
  size_t k = 0;
  for (; k + kWays * lanes <= depth; k += kWays * lanes) {
    for (size_t o = 0; o < kOutputs; ++o) {
      const auto* const at = reinterpret_cast<const std::byte*>(weight + o * depth + k);
      for (size_t line = 0; line < kWays * lanes * sizeof(E); line += kLineBytes) {
        __builtin_prefetch(at + ahead + line, 0, kSecondLevel);
      }
    }
    for (size_t way = 0; way < kWays; ++way) {
      add_terms<false>(weight + k + way * lanes, depth, in + k + way * lanes, in_stride, 0, sum[way]);
    }
  }
  for (; k + lanes <= depth; k += lanes) add_terms<false>(weight + k, depth, in + k, in_stride, 0, sum[0]);
  if (k < depth) add_terms<true>(weight + k, depth, in + k, in_stride, depth - k, sum[0]);

  for (size_t r = 0; r < kRows; ++r) {
    for (size_t o = 0; o < kOutputs; ++o) {
      F32Vec total = sum[0][o][r];
      for (size_t way = 1; way < kWays; ++way) total = hn::Add(total, sum[way][o][r]);
      out[r * out_stride + o] = hn::GetLane(hn::SumOfLanes(d, total));
    }
  }
}

// Outputs [first, last) of rows [row, row + kRows).
template <int kRows, class E>
HWY_INLINE void dot_rows(const DotProduct& p, int64_t row, int64_t first, int64_t last) {
  constexpr int kOutputs = outputs_per_tile(kRows);
  const E* const weight = reinterpret_cast<const E*>(p.weight);
  const auto depth = static_cast<size_t>(p.depth);
  const auto in_stride = static_cast<size_t>(p.in_stride);
  const auto out_stride = static_cast<size_t>(p.out_stride);
  const float* const in = p.in + row * p.in_stride;
  float* const out = p.out + row * p.out_stride;
  int64_t o = first;
  for (; o + kOutputs <= last; o += kOutputs) {
    dot_tile<kOutputs, kRows>(weight + o * p.depth, depth, in, in_stride, out + o, out_stride);
  }
  for (; o < last; ++o) {
    dot_tile<1, kRows>(weight + o * p.depth, depth, in, in_stride, out + o, out_stride);
  }
}

template <class E>
HWY_INLINE void dot_group(const DotProduct& p, int64_t row, int64_t rows, int64_t first, int64_t last) {
  switch (rows) {
    case 1:
      return dot_rows<1, E>(p, row, first, last);
    case 2:
      return dot_rows<2, E>(p, row, first, last);
    case 3:
      return dot_rows<3, E>(p, row, first, last);
    case kGroupRows:
      return dot_rows<kGroupRows, E>(p, row, first, last);
    default:
      break;  // no rows
  }
}

// Rows beyond one group meet the same few weights one group after the other.
template <class E>
void dot_all_rows(const DotProduct& p, int64_t first, int64_t last) {
  if (p.rows <= kGroupRows) return dot_group<E>(p, 0, p.rows, first, last);
  const int64_t groups = (p.rows + kGroupRows - 1) / kGroupRows;
  for (int64_t o = first; o < last; o += kGroupOutputs) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t row = p.rows * group / groups, end = p.rows * (group + 1) / groups;
      dot_group<E>(p, row, end - row, o, std::min(o + kGroupOutputs, last));
    }
  }
}

void DotOutputs(const DotProduct& p, int64_t first, int64_t last) {
  switch (p.kind) {
    case WeightKind::f32:
      return dot_all_rows<float>(p, first, last);
    case WeightKind::f16:
      return dot_all_rows<hwy::float16_t>(p, first, last);
    case WeightKind::bf16:
      return dot_all_rows<hwy::bfloat16_t>(p, first, last);
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
