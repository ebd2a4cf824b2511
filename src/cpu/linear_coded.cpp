// Tiles of outputs in registers, which share what they load of a row.
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
constexpr size_t kLineFloats = kLineBytes / sizeof(float);
// Of a rounded activation, in its low part; 0: it has none.
constexpr int low_bits(CodedActivations activations) {
  return activations == CodedActivations::bits22 ? 6 : 0;
}
// What this much rounds to a whole number would not be finite as a factor; smaller activations count as 0.
constexpr float kLeastLargest = 1e-30f;

constexpr size_t padded(size_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }
constexpr size_t steps_of(size_t depth) { return (depth + kStepWeights - 1) / kStepWeights; }

// A rounded row in memory: x = scale * (high * 2^low_bits + low), with a scale for each step, and the sum of
// the activations that meet each share, padded with zeros to whole lines.
struct RoundedRow {
  const int16_t* high = nullptr;
  const int16_t* low = nullptr;
  const float* scale = nullptr;
  const float* sum = nullptr;
};

// Where the parts of a rounded row begin.
template <class Float>
struct RoundedParts {
  Float *high, *low, *scale, *sum;
};
template <class Float>
HWY_INLINE RoundedParts<Float> rounded_parts(Float* at, size_t depth) {
  Float* const low = at + padded(depth / 2);
  Float* const scale = low + padded(depth / 2);
  return {at, low, scale, scale + padded(steps_of(depth))};
}

HWY_INLINE RoundedRow rounded_row(const float* at, size_t depth) {
  const auto parts = rounded_parts(at, depth);
  return {reinterpret_cast<const int16_t*>(parts.high), reinterpret_cast<const int16_t*>(parts.low),
          parts.scale, parts.sum};
}

// The largest magnitude of the numbers, or NaN where one is not finite.
HWY_INLINE float largest_of(const float* in, size_t count) {
  const Sums d;
  SumsVec most = hn::Zero(d), bad = hn::Zero(d);
  for (size_t k = 0; k < count; k += kSumLanes) {
    const SumsVec x = hn::LoadU(d, in + k);
    most = hn::Max(most, hn::Abs(x));
    bad = hn::Add(bad, hn::Sub(x, x));  // 0, or NaN
  }
  return hn::GetLane(hn::MaxOfLanes(d, most)) + hn::GetLane(hn::SumOfLanes(d, bad));
}

// Rounds the activations that meet one share of weights and returns the sum of the whole numbers.
template <size_t kShare, int kLowBits>
HWY_INLINE float round_share(const float* in, float per_unit, int16_t* high, int16_t* low) {
  const Sums d;
  const hn::Rebind<int16_t, Sums> d16;
  const auto half = hn::Set(Whole(), (1 << kLowBits) / 2);
  auto sum = hn::Zero(Whole());
  for (size_t k = 0; k < kShare; k += kSumLanes) {
    const auto whole = hn::NearestInt(hn::Mul(hn::LoadU(d, in + k), hn::Set(d, per_unit)));
    const auto above = hn::ShiftRight<kLowBits>(hn::Add(whole, half));
    hn::StoreU(hn::DemoteTo(d16, above), d16, high + k);
    if constexpr (kLowBits > 0) {
      hn::StoreU(hn::DemoteTo(d16, hn::Sub(whole, hn::ShiftLeft<kLowBits>(above))), d16, low + k);
    }
    sum = hn::Add(sum, whole);
  }
  return static_cast<float>(hn::GetLane(hn::SumOfLanes(Whole(), sum)));
}

template <class Loader, int kLowBits>
void round_for(const float* in, size_t depth, float* to) {
  constexpr size_t kShare = Loader::kShare;
  constexpr int kMostRounded = 32767 << kLowBits;
  const auto parts = rounded_parts(to, depth);
  auto* const high = reinterpret_cast<int16_t*>(parts.high);
  auto* const low = reinterpret_cast<int16_t*>(parts.low);
  for (size_t k = 0; k < depth; k += kStepWeights) {
    const size_t end = std::min(k + kStepWeights, depth);
    const float largest = largest_of(in + k, end - k), scale = largest / kMostRounded;
    const float per_unit = largest > kLeastLargest ? kMostRounded / largest : 0.0f;
    parts.scale[k / kStepWeights] = scale;
    for (size_t i = k; i < end; i += kShare) {
      parts.sum[i / kShare] = scale * round_share<kShare, kLowBits>(in + i, per_unit, high + i, low + i);
    }
  }
  const size_t shares = depth / kShare;
  std::fill(parts.sum + shares, parts.sum + padded(shares), 0.0f);
}

// The dot products of some outputs with one row. Where fewer are wanted the last one stands in for the rest.
struct Tile {
  CodedStep weight[kTileOutputs];
  RoundedRow in;
  size_t depth = 0;
  size_t distance = 0;  // in bytes, of the weights fetched meanwhile
};

struct TileSums {
  HWY_INLINE TileSums() {}        // as that of Factors
  SumsVec product[kTileOutputs];  // of scales and codes
  SumsVec offset[kTileOutputs];   // of offsets, or of scales where offsets are multiples of those
};

// The scales of a step's shares.
template <class Loader>
struct StepScales {
  HWY_ALIGN float of[kTileOutputs][kStepWeights / Loader::kShare];
};

template <class Loader>
HWY_INLINE void take_factors(const Tile& t, size_t shares, StepScales<Loader>& scales, TileSums& sums) {
  const Sums d;
  for (size_t o = 0; o < kTileOutputs; ++o) {
    Factors<Loader::kShare> factors;
    Loader::factors(t.weight[o], shares, factors);
    for (size_t v = 0; v < factors.kVectors; ++v) {
      hn::Store(factors.scale[v], d, scales.of[o] + v * kSumLanes);
      if constexpr (Loader::kOffset != Offset::none) {
        const SumsVec factor = Loader::kOffset == Offset::stored ? factors.offset[v] : factors.scale[v];
        sums.offset[o] = hn::MulAdd(factor, hn::Load(d, t.in.sum + v * kSumLanes), sums.offset[o]);
      }
    }
  }
}

using WholeVec = hn::Vec<Whole>;

// The sums of the products of neighbours, exact.
template <size_t kParts>
HWY_INLINE WholeVec whole_sums(const CodesVec (&w)[kParts], const int16_t* x) {
  WholeVec even = hn::Zero(Whole()), odd = hn::Zero(Whole());
  for (size_t part = 0; part < kParts; ++part) {
    even =
        hn::ReorderWidenMulAccumulate(Whole(), w[part], hn::LoadU(Codes(), x + part * kCodeLanes), even, odd);
  }
  return hn::RearrangeToOddPlusEven(even, odd);
}

// The share that begins with weight kAt of block `block`, share `share` of the step. Sums fit into 32 bits:
// at most eight products of 8 and 22 bits meet in a lane.
template <class Loader, int kLowBits, size_t kAt, size_t... kPart>
HWY_INLINE void add_share(const Tile& t, size_t block, size_t share, const StepScales<Loader>& scales,
                          SumsVec (&sum)[kTileOutputs], std::index_sequence<kPart...>) {
  for (size_t o = 0; o < kTileOutputs; ++o) {
    const std::byte* const from = t.weight[o].codes + block * Loader::kBytes;
    const CodesVec w[] = {Loader::template codes<kAt + kPart * kCodeLanes>(from)...};
    WholeVec products = whole_sums(w, t.in.high + share * Loader::kShare);
    if constexpr (kLowBits > 0) {
      const WholeVec low = whole_sums(w, t.in.low + share * Loader::kShare);
      products = hn::Add(hn::ShiftLeft<kLowBits>(products), low);
    }
    sum[o] = hn::MulAdd(hn::ConvertTo(Sums(), products), hn::Set(Sums(), scales.of[o][share]), sum[o]);
  }
}

template <class Loader, int kLowBits, size_t... kShare>
HWY_INLINE void add_block(const Tile& t, size_t block, const StepScales<Loader>& scales,
                          SumsVec (&sum)[kTileOutputs], std::index_sequence<kShare...>) {
  (add_share<Loader, kLowBits, kShare * Loader::kShare>(
       t, block, block * sizeof...(kShare) + kShare, scales, sum,
       std::make_index_sequence<Loader::kShare / kCodeLanes>()),
   ...);
}

HWY_INLINE void clear(SumsVec (&sums)[kTileOutputs]) {
  for (SumsVec& sum : sums) sum = hn::Zero(Sums());
}

template <class Loader, int kLowBits>
HWY_INLINE void add_step(Tile& t, size_t weights, TileSums& sums) {
  const size_t bytes = weights / Loader::kBlock * Loader::kBytes, shares = weights / Loader::kShare;
  for (const CodedStep& step : t.weight) {
    for (size_t line = 0; line < bytes; line += kLineBytes) {
      __builtin_prefetch(step.codes + t.distance + line, 0, kSecondLevel);
    }
  }
  StepScales<Loader> scales;
  take_factors<Loader>(t, shares, scales, sums);
  SumsVec sum[kTileOutputs];
  clear(sum);
  for (size_t b = 0; b < weights / Loader::kBlock; ++b) {
    add_block<Loader, kLowBits>(t, b, scales, sum,
                                std::make_index_sequence<Loader::kBlock / Loader::kShare>());
  }
  const SumsVec scale = hn::Set(Sums(), *t.in.scale);
  for (size_t o = 0; o < kTileOutputs; ++o) {
    sums.product[o] = hn::MulAdd(sum[o], scale, sums.product[o]);
  }
  for (CodedStep& step : t.weight) {
    step.codes += bytes;
    step.first += weights;
  }
  t.in.high += weights;
  t.in.low += weights;
  t.in.scale += 1;
  t.in.sum += shares;
}

template <class Loader, int kLowBits>
HWY_INLINE void multiply_tile(Tile t, TileSums& total) {
  TileSums sums;
  clear(sums.product);
  clear(sums.offset);
  size_t k = 0;
  for (; k + kStepWeights <= t.depth; k += kStepWeights) add_step<Loader, kLowBits>(t, kStepWeights, sums);
  if (k < t.depth) add_step<Loader, kLowBits>(t, t.depth - k, sums);
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

// Outputs [first, last) of every row; rows follow each other while their weights are near.
template <class Loader, int kLowBits>
void multiply(const CodedProduct& p, int64_t first, int64_t last) {
  const auto depth = static_cast<size_t>(p.depth);
  const size_t row_bytes = depth / Loader::kBlock * Loader::kBytes, step = kTileOutputs * row_bytes;
  Tile tile;
  tile.depth = depth;
  tile.distance = (kLeastAhead + step - 1) / step * step;
  for (int64_t o = first; o < last; o += kTileOutputs) {
    for (int64_t i = 0; i < kTileOutputs; ++i) {
      const int64_t output = std::min(o + i, last - 1);
      tile.weight[i] = {p.weight + static_cast<size_t>(output) * row_bytes,
                        p.scales == nullptr ? nullptr : p.scales + output * (p.depth / p.group),
                        static_cast<size_t>(p.group), 0};
    }
    for (int64_t r = 0; r < p.rows; ++r) {
      tile.in = rounded_row(p.in + static_cast<size_t>(r) * rounded_row_floats(p.depth), depth);
      TileSums sums;
      multiply_tile<Loader, kLowBits>(tile, sums);
      float* const to = p.out + r * p.out_stride + o;
      for (int64_t i = 0; i < std::min<int64_t>(kTileOutputs, last - o); ++i) {
        to[i] = total_of<Loader>(sums.product[i], sums.offset[i]);
      }
    }
  }
}

void CodedOutputs(const CodedProduct& p, int64_t first, int64_t last) {
  with_loader(p.dtype, [&](auto loader) {
    if (p.activations == CodedActivations::bits16) {
      multiply<decltype(loader), low_bits(CodedActivations::bits16)>(p, first, last);
    } else {
      multiply<decltype(loader), low_bits(CodedActivations::bits22)>(p, first, last);
    }
  });
}

void RoundRow(DType dtype, CodedActivations activations, const float* in, int64_t depth, float* to) {
  const auto count = static_cast<size_t>(depth);
  with_loader(dtype, [&](auto loader) {
    if (activations == CodedActivations::bits16) {
      round_for<decltype(loader), low_bits(CodedActivations::bits16)>(in, count, to);
    } else {
      round_for<decltype(loader), low_bits(CodedActivations::bits22)>(in, count, to);
    }
  });
}

bool HasLoader(DType dtype) {
  return with_loader(dtype, [](auto) {});
}

#else

void CodedOutputs(const CodedProduct&, int64_t, int64_t) {}
void RoundRow(DType, CodedActivations, const float*, int64_t, float*) {}
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
  // Two parts of 16 bits, the scales of steps, and the sums of the smallest shares.
  return 2 * floats(depth / 2) + floats(depth / 256 + 1) + floats(depth / 16);
}

void round_row(DType dtype, CodedActivations activations, const float* in, int64_t depth, float* to) {
  HWY_DYNAMIC_DISPATCH(RoundRow)(dtype, activations, in, depth, to);
}

void coded_outputs(const CodedProduct& product, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(CodedOutputs)(product, first, last);
}

}  // namespace fulmar
#endif
