// Tiles of outputs x rows held in registers: each weight is widened once for all rows of a tile, and a tile's
// weights stay in the first-level cache while further rows pass over them.
#include "cpu/linear_dot.h"

#include "cpu/simd_targets.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_dot.cpp"
#include "hwy/foreach_target.h"
#include "cpu/weight_load-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr int kRowsPerTile = 4;
constexpr size_t kPrefetchBytes = 1024;  // ahead of the present read, in each weight row

constexpr int outputs_per_tile(int rows) { return rows <= 2 || kManyRegisters ? 4 : 2; }

// kOutputs x kRows dot products of length `depth`; `weight` and `in` point at the tile's first row.
template <int kOutputs, int kRows, class E>
HWY_INLINE void dot_tile(const E* weight, size_t depth, const float* in, size_t in_stride, float* out,
                         size_t out_stride) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  constexpr int kWays = kRows == 1 ? 2 : 1;  // enough independent sums to hide the latency of one
  F32Vec sum[kWays][kOutputs][kRows];
  for (auto& way : sum) {
    for (auto& output : way) {
      for (auto& row : output) row = hn::Zero(d);
    }
  }
  const auto accumulate = [&](int way, auto&& load_weight, auto&& load_in) HWY_ATTR {
    F32Vec x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = load_in(in + static_cast<size_t>(r) * in_stride);
    for (int o = 0; o < kOutputs; ++o) {
      const F32Vec w = load_weight(weight + static_cast<size_t>(o) * depth);
      for (int r = 0; r < kRows; ++r) sum[way][o][r] = hn::MulAdd(w, x[r], sum[way][o][r]);
    }
  };

  size_t k = 0;
  const auto whole = [&](const auto* row) HWY_ATTR { return load_weights(row + k); };
  for (; k + kWays * lanes <= depth;) {
    for (int o = 0; o < kOutputs; ++o) {
      hwy::Prefetch(reinterpret_cast<const std::byte*>(weight + static_cast<size_t>(o) * depth + k) +
                    kPrefetchBytes);
    }
    for (int way = 0; way < kWays; ++way, k += lanes) accumulate(way, whole, whole);
  }
  for (; k + lanes <= depth; k += lanes) accumulate(0, whole, whole);
  if (k < depth) {
    const auto rest = [&](const auto* row) HWY_ATTR { return load_weights_tail(row + k, depth - k); };
    accumulate(0, rest, rest);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o) {
      F32Vec total = sum[0][o][r];
      if constexpr (kWays == 2) total = hn::Add(total, sum[1][o][r]);
      out[static_cast<size_t>(r) * out_stride + static_cast<size_t>(o)] =
          hn::GetLane(hn::SumOfLanes(d, total));
    }
  }
}

// Outputs [first, last) for kRows rows.
template <int kRows, class E>
HWY_INLINE void dot_rows(const DotProduct& p, const float* in, float* out, int64_t first, int64_t last) {
  constexpr int kOutputs = outputs_per_tile(kRows);
  const E* const weight = reinterpret_cast<const E*>(p.weight);
  const auto depth = static_cast<size_t>(p.depth);
  const auto in_stride = static_cast<size_t>(p.in_stride);
  const auto out_stride = static_cast<size_t>(p.out_stride);
  int64_t o = first;
  for (; o + kOutputs <= last; o += kOutputs) {
    dot_tile<kOutputs, kRows>(weight + o * p.depth, depth, in, in_stride, out + o, out_stride);
  }
  for (; o < last; ++o) {
    dot_tile<1, kRows>(weight + o * p.depth, depth, in, in_stride, out + o, out_stride);
  }
}

template <class E>
void dot_all_rows(const DotProduct& p, int64_t first, int64_t last) {
  // Passes of all rows over a few outputs: their weights come from memory once.
  constexpr int64_t kOutputsPerPass = 4;
  const int64_t step = p.rows <= kRowsPerTile ? last - first : kOutputsPerPass;
  for (int64_t o = first; o < last; o += step) {
    const int64_t end = HWY_MIN(o + step, last);
    for (int64_t r = 0; r < p.rows; r += kRowsPerTile) {
      const float* in = p.in + r * p.in_stride;
      float* out = p.out + r * p.out_stride;
      switch (HWY_MIN(p.rows - r, int64_t{kRowsPerTile})) {
        case 1:
          dot_rows<1, E>(p, in, out, o, end);
          break;
        case 2:
          dot_rows<2, E>(p, in, out, o, end);
          break;
        case 3:
          dot_rows<3, E>(p, in, out, o, end);
          break;
        default:
          dot_rows<4, E>(p, in, out, o, end);
          break;
      }
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
