// Tiles of outputs x rows in registers: each weight is widened once for all rows of a tile.
#include "cpu/linear_coded.h"

#include <algorithm>

#include "cpu/simd_targets.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_coded.cpp"
#include "hwy/foreach_target.h"
#include "cpu/coded_blocks-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kLineBytes = 64;
constexpr size_t kLeastAhead = 4096;  // bytes; covers the latency of memory
constexpr int kSecondLevel = 2;       // the first level tracks too few misses to keep memory busy
constexpr int kTileOutputs = 4;
constexpr int kTileRows = 2;  // whose sums fit into registers
constexpr size_t kLineFloats = kLineBytes / sizeof(float);

constexpr size_t padded(size_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

// A rounded row in memory: the codes, then for each share its scale and the sum of what its codes stand for,
// both padded with zeros to whole lines.
struct RoundedRow {
  const int16_t* codes = nullptr;
  const float* scale = nullptr;
  const float* sum = nullptr;
};

template <class Loader>
HWY_INLINE RoundedRow rounded_row(const float* at, size_t depth) {
  const float* const scale = at + padded(depth / 2);
  return {reinterpret_cast<const int16_t*>(at), scale, scale + padded(depth / Loader::kShare)};
}

// Rounds the activations that meet one share of weights.
template <size_t kShare>
HWY_INLINE void round_share(const float* in, int16_t* codes, float* scale, float* sum) {
  constexpr float kMost = 32767;
  constexpr size_t kVectors = kShare / kSumLanes;
  const Sums d;
  const hn::Rebind<int16_t, Sums> d16;
  SumsVec x[kVectors];
  SumsVec most = hn::Zero(d), bad = hn::Zero(d);
  for (size_t v = 0; v < kVectors; ++v) {
    x[v] = hn::LoadU(d, in + v * kSumLanes);
    most = hn::Max(most, hn::Abs(x[v]));
    bad = hn::Add(bad, hn::Sub(x[v], x[v]));  // 0, or NaN where x is not finite
  }
  const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  const SumsVec per_unit = hn::Set(d, largest > 0 ? kMost / largest : 0.0f);
  SumsVec total = hn::Zero(d);
  for (size_t v = 0; v < kVectors; ++v) {
    const auto whole = hn::NearestInt(hn::Mul(x[v], per_unit));
    hn::StoreU(hn::DemoteTo(d16, whole), d16, codes + v * kSumLanes);
    total = hn::Add(total, hn::ConvertTo(d, whole));
  }
  *scale = largest / kMost + hn::GetLane(hn::SumOfLanes(d, bad));
  *sum = *scale * hn::GetLane(hn::SumOfLanes(d, total));
}

template <class Loader>
void round_for(const float* in, size_t depth, float* to) {
  const size_t shares = depth / Loader::kShare, room = padded(shares);
  auto* const codes = reinterpret_cast<int16_t*>(to);
  float* const scale = to + padded(depth / 2);
  float* const sum = scale + room;
  for (size_t i = 0; i < shares; ++i) {
    round_share<Loader::kShare>(in + i * Loader::kShare, codes + i * Loader::kShare, scale + i, sum + i);
  }
  std::fill(scale + shares, scale + room, 0.0f);
  std::fill(sum + shares, sum + room, 0.0f);
}

// kOutputs x kRows dot products. Where fewer are wanted the last ones stand in for the rest.
template <int kOutputs, int kRows>
struct Tile {
  CodedStep weight[kOutputs];
  RoundedRow in[kRows];
  size_t depth = 0;
  size_t distance = 0;  // in bytes, of the weights fetched meanwhile
};

template <int kOutputs, int kRows>
struct TileSums {
  SumsVec product[kRows][kOutputs];  // of scales and codes
  SumsVec offset[kRows][kOutputs];   // of offsets, or of scales where offsets are multiples of those
};

// For the shares of a step the scales of weights and of activations, multiplied.
template <class Loader, int kOutputs, int kRows>
struct StepScales {
  HWY_ALIGN float product[kRows][kOutputs][kStepWeights / Loader::kShare];
};

template <class Loader, int kOutputs, int kRows>
HWY_INLINE void take_factors(const Tile<kOutputs, kRows>& t, size_t shares,
                             StepScales<Loader, kOutputs, kRows>& scales, TileSums<kOutputs, kRows>& sums) {
  const Sums d;
  for (size_t o = 0; o < kOutputs; ++o) {
    Factors<Loader::kShare> factors;
    Loader::factors(t.weight[o], shares, factors);
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < factors.kVectors; ++v) {
        const size_t at = v * kSumLanes;
        hn::Store(hn::Mul(factors.scale[v], hn::Load(d, t.in[r].scale + at)), d, scales.product[r][o] + at);
        if constexpr (Loader::kOffset != Offset::none) {
          const SumsVec factor = Loader::kOffset == Offset::stored ? factors.offset[v] : factors.scale[v];
          sums.offset[r][o] = hn::MulAdd(factor, hn::Load(d, t.in[r].sum + at), sums.offset[r][o]);
        }
      }
    }
  }
}

// The share that begins with weight kAt of block `block`, share `share` of the step.
template <class Loader, size_t kAt, int kOutputs, int kRows, size_t... kPart>
HWY_INLINE void add_share(const Tile<kOutputs, kRows>& t, size_t block, size_t share,
                          const StepScales<Loader, kOutputs, kRows>& scales, TileSums<kOutputs, kRows>& sums,
                          std::index_sequence<kPart...>) {
  const Codes d16;
  for (size_t o = 0; o < kOutputs; ++o) {
    const std::byte* const from = t.weight[o].codes + block * Loader::kBytes;
    const CodesVec w[] = {Loader::template codes<kAt + kPart * kCodeLanes>(from)...};
    for (size_t r = 0; r < kRows; ++r) {
      const int16_t* const x = t.in[r].codes + share * Loader::kShare;
      auto even = hn::Zero(Whole()), odd = hn::Zero(Whole());
      ((even = hn::ReorderWidenMulAccumulate(Whole(), w[kPart], hn::LoadU(d16, x + kPart * kCodeLanes), even,
                                             odd)),
       ...);
      const SumsVec sum = hn::ConvertTo(Sums(), hn::RearrangeToOddPlusEven(even, odd));
      sums.product[r][o] = hn::MulAdd(sum, hn::Set(Sums(), scales.product[r][o][share]), sums.product[r][o]);
    }
  }
}

template <class Loader, int kOutputs, int kRows, size_t... kShare>
HWY_INLINE void add_block(const Tile<kOutputs, kRows>& t, size_t block,
                          const StepScales<Loader, kOutputs, kRows>& scales, TileSums<kOutputs, kRows>& sums,
                          std::index_sequence<kShare...>) {
  (add_share<Loader, kShare * Loader::kShare>(t, block, block * sizeof...(kShare) + kShare, scales, sums,
                                              std::make_index_sequence<Loader::kShare / kCodeLanes>()),
   ...);
}

template <class Loader, int kOutputs, int kRows>
HWY_INLINE void add_step(Tile<kOutputs, kRows>& t, size_t weights, TileSums<kOutputs, kRows>& sums) {
  const size_t bytes = weights / Loader::kBlock * Loader::kBytes, shares = weights / Loader::kShare;
  for (const CodedStep& step : t.weight) {
    for (size_t line = 0; line < bytes; line += kLineBytes) {
      __builtin_prefetch(step.codes + t.distance + line, 0, kSecondLevel);
    }
  }
  StepScales<Loader, kOutputs, kRows> scales;
  take_factors<Loader>(t, shares, scales, sums);
  for (size_t b = 0; b < weights / Loader::kBlock; ++b) {
    add_block<Loader>(t, b, scales, sums, std::make_index_sequence<Loader::kBlock / Loader::kShare>());
  }
  for (CodedStep& step : t.weight) {
    step.codes += bytes;
    step.first += weights;
  }
  for (RoundedRow& row : t.in) {
    row.codes += weights;
    row.scale += shares;
    row.sum += shares;
  }
}

template <class Loader, int kOutputs, int kRows>
HWY_INLINE void multiply_tile(Tile<kOutputs, kRows> t, TileSums<kOutputs, kRows>& total) {
  TileSums<kOutputs, kRows> sums;
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t o = 0; o < kOutputs; ++o) {
      sums.product[r][o] = hn::Zero(Sums());
      sums.offset[r][o] = hn::Zero(Sums());
    }
  }
  size_t k = 0;
  for (; k + kStepWeights <= t.depth; k += kStepWeights) add_step<Loader>(t, kStepWeights, sums);
  if (k < t.depth) add_step<Loader>(t, t.depth - k, sums);
  total = sums;
}

template <class Loader>
HWY_INLINE float total_of(SumsVec product, SumsVec offset) {
  if constexpr (Loader::kOffset == Offset::stored) {
    product = hn::Add(product, offset);
  } else if constexpr (Loader::kOffset == Offset::zero) {
    product = hn::NegMulAdd(hn::Set(Sums(), Loader::kZero), offset, product);
  }
  return hn::GetLane(hn::SumOfLanes(Sums(), product));
}

// Outputs o, o + 1, ... of rows row, row + 1, ..., as many as the tile has.
template <class Loader, int kRows>
HWY_INLINE void store_tile(const CodedProduct& p, int64_t row, int64_t o, int64_t last,
                           const TileSums<kTileOutputs, kRows>& sums) {
  for (int64_t r = 0; r < std::min<int64_t>(kRows, p.rows - row); ++r) {
    float* const to = p.out + (row + r) * p.out_stride + o;
    for (int64_t i = 0; i < std::min<int64_t>(kTileOutputs, last - o); ++i) {
      to[i] = total_of<Loader>(sums.product[r][i], sums.offset[r][i]);
    }
  }
}

// All rows of the outputs [first, last), kRows at a time while their weights are near.
template <class Loader, int kRows>
void multiply(const CodedProduct& p, int64_t first, int64_t last) {
  const auto depth = static_cast<size_t>(p.depth);
  const size_t row_bytes = depth / Loader::kBlock * Loader::kBytes, step = kTileOutputs * row_bytes;
  Tile<kTileOutputs, kRows> tile;
  tile.depth = depth;
  tile.distance = (kLeastAhead + step - 1) / step * step;
  for (int64_t o = first; o < last; o += kTileOutputs) {
    for (int64_t i = 0; i < kTileOutputs; ++i) {
      const int64_t output = std::min(o + i, last - 1);
      tile.weight[i] = {p.weight + static_cast<size_t>(output) * row_bytes,
                        p.scales == nullptr ? nullptr : p.scales + output * (p.depth / p.group),
                        static_cast<size_t>(p.group), 0};
    }
    for (int64_t row = 0; row < p.rows; row += kRows) {
      for (int64_t r = 0; r < kRows; ++r) {
        const auto index = static_cast<size_t>(std::min(row + r, p.rows - 1));
        tile.in[r] = rounded_row<Loader>(p.in + index * rounded_row_floats(p.depth), depth);
      }
      TileSums<kTileOutputs, kRows> sums;
      multiply_tile<Loader>(tile, sums);
      store_tile<Loader>(p, row, o, last, sums);
    }
  }
}

void CodedOutputs(const CodedProduct& p, int64_t first, int64_t last) {
  with_loader(p.dtype, [&](auto loader) {
    using Loader = decltype(loader);
    if (p.rows == 1) return multiply<Loader, 1>(p, first, last);
    return multiply<Loader, kTileRows>(p, first, last);
  });
}

void RoundRow(DType dtype, const float* in, int64_t depth, float* to) {
  with_loader(dtype, [&](auto loader) { round_for<decltype(loader)>(in, static_cast<size_t>(depth), to); });
}

bool HasLoader(DType dtype) {
  return with_loader(dtype, [](auto) {});
}

#else

void CodedOutputs(const CodedProduct&, int64_t, int64_t) {}
void RoundRow(DType, const float*, int64_t, float*) {}
bool HasLoader(DType) { return false; }

#endif

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fulmar {

HWY_EXPORT(CodedOutputs);
HWY_EXPORT(RoundRow);
HWY_EXPORT(HasLoader);

bool multiplies_codes(const Weight& weight) {
  const bool whole = weight.in % 32 == 0 && (weight.scales == nullptr || weight.group % 32 == 0);
  return whole && HWY_DYNAMIC_DISPATCH(HasLoader)(weight.dtype);
}

size_t rounded_row_floats(int64_t depth) {
  const auto floats = [](int64_t count) { return static_cast<size_t>((count + 15) / 16 * 16); };
  return floats(depth / 2) + 2 * floats(depth / 16);  // the smallest share
}

void round_row(DType dtype, const float* in, int64_t depth, float* to) {
  HWY_DYNAMIC_DISPATCH(RoundRow)(dtype, in, depth, to);
}

void coded_outputs(const CodedProduct& product, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(CodedOutputs)(product, first, last);
}

}  // namespace fulmar
#endif
