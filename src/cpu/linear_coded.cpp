// A tile of outputs lies in the lanes of a vector, so that nothing is added across lanes; what is unpacked of
// a weight serves several rows.
#include "cpu/linear_coded.h"

#include <algorithm>
#include <utility>

#include "cpu/interleaved.h"
#include "cpu/simd_targets.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_coded.cpp"
// Nothing here is wider than 256 bits: what has more than AVX2 runs that.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (FULMAR_DISABLED_TARGETS | (HWY_AVX2 - 1))
#include "hwy/foreach_target.h"
#include "cpu/coded_blocks-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kLineBytes = 64;
constexpr size_t kAhead = 2048;  // bytes that are on their way; covers the latency of memory
// What this much rounds to a whole number would not be finite as a factor; smaller activations count as 0.
constexpr float kLeastLargest = 1e-30f;

// ---- rounding

// The largest magnitude of the numbers, or NaN where one is not finite.
HWY_INLINE float largest_of(const float* in, size_t count) {
  const Sums d;
  SumsVec most = hn::Zero(d), bad = hn::Zero(d);
  for (size_t k = 0; k < count; k += kLanes) {
    const SumsVec x = hn::LoadU(d, in + k);
    most = hn::Max(most, hn::Abs(x));
    bad = hn::Add(bad, hn::Sub(x, x));  // 0, or NaN
  }
  return hn::GetLane(hn::MaxOfLanes(d, most)) + hn::GetLane(hn::SumOfLanes(d, bad));
}

// Splits whole numbers into digits, `stride` bytes from one digit to the next.
template <size_t kDigits>
HWY_INLINE void store_digits(WholeVec whole, int8_t* to, size_t stride) {
  const hn::Rebind<int8_t, Whole> d8;
  const auto digit = hn::Set(Whole(), (1 << kDigitBits) - 1);
  for (size_t i = kDigits - 1; i > 0; --i) {
    hn::StoreU(hn::DemoteTo(d8, hn::And(whole, digit)), d8, to + i * stride);
    whole = hn::ShiftRight<kDigitBits>(whole);
  }
  hn::StoreU(hn::DemoteTo(d8, whole), d8, to);
}

// Rounds the activations of one share and returns the sum of the whole numbers.
template <size_t kDigits>
HWY_INLINE float round_share(const float* in, size_t count, float per_unit, int8_t* to, size_t stride) {
  const Sums d;
  auto sum = hn::Zero(Whole());
  for (size_t k = 0; k < count; k += kLanes) {
    const WholeVec whole = hn::NearestInt(hn::Mul(hn::LoadU(d, in + k), hn::Set(d, per_unit)));
    store_digits<kDigits>(whole, to + k, stride);
    sum = hn::Add(sum, whole);
  }
  return static_cast<float>(hn::GetLane(hn::SumOfLanes(Whole(), sum)));
}

template <size_t kDigits>
void round_shares(const float* in, int64_t depth, size_t share, float* to) {
  constexpr int kMostRounded = 127 << (kDigits - 1) * kDigitBits;
  const RoundedLayout layout(depth);
  const auto stride = static_cast<size_t>(layout.digit_floats) * sizeof(float);
  auto* const digits = reinterpret_cast<int8_t*>(to);
  float* const scales = to + static_cast<int64_t>(kDigits) * layout.digit_floats;
  float* const sums = scales + layout.share_floats;
  for (size_t i = 0; i < static_cast<size_t>(depth) / share; ++i) {
    const float* const from = in + i * share;
    const float largest = largest_of(from, share);
    const float per_unit = largest > kLeastLargest ? kMostRounded / largest : 0.0f;
    scales[i] = largest / kMostRounded;
    sums[i] = scales[i] * round_share<kDigits>(from, share, per_unit, digits + i * share, stride);
  }
}

// ---- products

// A rounded row from some block on.
template <size_t kDigits>
struct RoundedRow {
  const int8_t* digits[kDigits];
  const float* scale;
  const float* sum;
};

template <size_t kDigits>
HWY_INLINE RoundedRow<kDigits> rounded_row(const float* at, const RoundedLayout& layout) {
  RoundedRow<kDigits> row;
  for (size_t i = 0; i < kDigits; ++i, at += layout.digit_floats) {
    row.digits[i] = reinterpret_cast<const int8_t*>(at);
  }
  row.scale = at;
  row.sum = at + layout.share_floats;
  return row;
}

// Rows whose sums fit into the registers beside what grows in them.
constexpr size_t rows_at_once(size_t digits) { return digits == 1 ? 4 : 2; }

// Four weights of each output with those of every row and digit.
template <class Loader, size_t kFirst, size_t kVector, size_t kDigits, size_t kRows>
HWY_INLINE void add_four(const TileBlock& block, const RoundedRow<kDigits> (&in)[kRows],
                         DotSum (&dot)[kRows][kDigits]) {
  constexpr size_t kAt = kFirst + 4 * kVector;
  const BytesVec codes = Loader::template codes<kAt>(block);
  for (size_t r = 0; r < kRows; ++r) {
    dot[r][0].template add<Loader::kSigned, true, kVector, Loader::kPairs>(
        codes, spread_digits(in[r].digits[0] + kAt));
    for (size_t i = 1; i < kDigits; ++i) {
      dot[r][i].template add<Loader::kSigned, false, kVector, Loader::kPairs>(
          codes, spread_digits(in[r].digits[i] + kAt));
    }
  }
}

// The sums of a share. With codes of eight bits 22 bits of activations leave 32: their lowest digit joins in
// f32.
template <bool kSigned, size_t kDigits>
HWY_INLINE SumsVec join_digits(const DotSum (&dot)[kDigits]) {
  const Sums d;
  constexpr bool kApart = kSigned && kDigits == 3;
  WholeVec whole = dot[0].get();
  for (size_t i = 1; i < kDigits - (kApart ? 1 : 0); ++i) {
    whole = hn::Add(hn::ShiftLeft<kDigitBits>(whole), dot[i].get());
  }
  if constexpr (!kApart) return hn::ConvertTo(d, whole);
  const SumsVec lowest = hn::ConvertTo(d, dot[kDigits - 1].get());
  return hn::MulAdd(hn::ConvertTo(d, whole), hn::Set(d, float{1 << kDigitBits}), lowest);
}

template <class Loader, size_t kShareIndex, size_t kDigits, size_t kRows, size_t... kVector>
HWY_INLINE void add_share(const TileBlock& block, const RoundedRow<kDigits> (&in)[kRows],
                          SumsVec (&sum)[kRows], std::index_sequence<kVector...>) {
  DotSum dot[kRows][kDigits];
  for (auto& row : dot) {
    for (DotSum& digit : row) digit.clear();
  }
  (add_four<Loader, kShareIndex * Loader::kShare, kVector>(block, in, dot), ...);
  const Sums d;
  const SumsVec scale = Loader::template scale<kShareIndex>(block);
  const SumsVec offset = offset_of<Loader, kShareIndex>(block, scale);
  for (size_t r = 0; r < kRows; ++r) {
    const SumsVec whole = join_digits<Loader::kSigned>(dot[r]);
    sum[r] = hn::MulAdd(whole, hn::Mul(scale, hn::Set(d, in[r].scale[kShareIndex])), sum[r]);
    if constexpr (Loader::kOffset != Offset::none) {
      sum[r] = hn::MulAdd(offset, hn::Set(d, in[r].sum[kShareIndex]), sum[r]);
    }
  }
}

template <class Loader, size_t kDigits, size_t kRows, size_t... kShareIndex>
HWY_INLINE void add_block(const TileBlock& block, const RoundedRow<kDigits> (&in)[kRows],
                          SumsVec (&sum)[kRows], std::index_sequence<kShareIndex...>) {
  (add_share<Loader, kShareIndex>(block, in, sum, std::make_index_sequence<Loader::kShare / 4>()), ...);
}

// The sums of kLanes outputs, from `lane` of a tile on, and of some rows.
template <class Loader, size_t kDigits, size_t kRows>
HWY_INLINE void multiply_tile(const CodedProduct& p, int64_t tile, size_t lane, bool fetch,
                              RoundedRow<kDigits> (&in)[kRows], SumsVec (&sum)[kRows]) {
  constexpr size_t kShares = Loader::kBlock / Loader::kShare,
                   kTileBytes = Loader::kBytes * kInterleavedOutputs;
  const size_t blocks = static_cast<size_t>(p.depth) / Loader::kBlock;
  TileBlock block{p.weight + static_cast<size_t>(tile) * blocks * kTileBytes, nullptr, lane};
  if (p.scales != nullptr) block.scales = p.scales + tile * (p.depth / p.group) * kInterleavedOutputs;
  for (SumsVec& row : sum) row = hn::Zero(Sums());
  int64_t in_group = 0;
  for (size_t b = 0; b < blocks; ++b) {
    if (fetch) {
      for (size_t line = 0; line < kTileBytes; line += kLineBytes) {
        __builtin_prefetch(block.at + kAhead + line);
      }
    }
    add_block<Loader>(block, in, sum, std::make_index_sequence<kShares>());
    block.at += kTileBytes;
    for (RoundedRow<kDigits>& row : in) {
      for (const int8_t*& digits : row.digits) digits += Loader::kBlock;
      row.scale += kShares;
      row.sum += kShares;
    }
    in_group += Loader::kBlock;
    if (in_group == p.group) {
      block.scales += kInterleavedOutputs;
      in_group = 0;
    }
  }
}

// Outputs [first, last) of kRows rows from `row` on.
template <class Loader, size_t kDigits, size_t kRows>
void multiply_rows(const CodedProduct& p, int64_t first, int64_t last, int64_t row) {
  const RoundedLayout layout(p.depth);
  for (int64_t o = first; o < last; o += static_cast<int64_t>(kLanes)) {
    RoundedRow<kDigits> in[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      const int64_t at = row + static_cast<int64_t>(r);
      in[r] = rounded_row<kDigits>(p.in + at * rounded_row_floats(p.activations, p.depth), layout);
    }
    SumsVec sum[kRows];
    multiply_tile<Loader>(p, o / kInterleavedOutputs, static_cast<size_t>(o % kInterleavedOutputs), row == 0,
                          in, sum);
    const size_t count = std::min(kLanes, static_cast<size_t>(last - o));
    for (size_t r = 0; r < kRows; ++r) {
      float* const to = p.out + (row + static_cast<int64_t>(r)) * p.out_stride + o;
      if (count == kLanes) {
        hn::StoreU(sum[r], Sums(), to);
      } else {
        HWY_ALIGN float all[kLanes];
        hn::Store(sum[r], Sums(), all);
        std::copy(all, all + count, to);
      }
    }
  }
}

// Outputs [first, last) of every row: some rows with all of these weights, which then lie in the cache, and
// the next ones.
template <class Loader, size_t kDigits>
void multiply(const CodedProduct& p, int64_t first, int64_t last) {
  constexpr size_t kRows = rows_at_once(kDigits);
  int64_t row = 0;
  for (; row + static_cast<int64_t>(kRows) <= p.rows; row += kRows) {
    multiply_rows<Loader, kDigits, kRows>(p, first, last, row);
  }
  if (kRows > 2 && row + 2 <= p.rows) {
    multiply_rows<Loader, kDigits, 2>(p, first, last, row);
    row += 2;
  }
  if (row < p.rows) multiply_rows<Loader, kDigits, 1>(p, first, last, row);
}

void CodedOutputs(const CodedProduct& p, int64_t first, int64_t last) {
  with_loader(p.dtype, [&](auto loader) {
    switch (p.activations) {
      case CodedActivations::bits8:
        return multiply<decltype(loader), 1>(p, first, last);
      case CodedActivations::bits15:
        return multiply<decltype(loader), 2>(p, first, last);
      case CodedActivations::bits22:
        return multiply<decltype(loader), 3>(p, first, last);
    }
  });
}

void RoundRow(DType dtype, CodedActivations activations, const float* in, int64_t depth, float* to) {
  size_t share = 0;
  with_loader(dtype, [&](auto loader) { share = decltype(loader)::kShare; });
  switch (activations) {
    case CodedActivations::bits8:
      return round_shares<1>(in, depth, share, to);
    case CodedActivations::bits15:
      return round_shares<2>(in, depth, share, to);
    case CodedActivations::bits22:
      return round_shares<3>(in, depth, share, to);
  }
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

bool multiplies_codes(DType dtype) { return HWY_DYNAMIC_DISPATCH(HasLoader)(dtype); }

void round_row(DType dtype, CodedActivations activations, const float* in, int64_t depth, float* to) {
  HWY_DYNAMIC_DISPATCH(RoundRow)(dtype, activations, in, depth, to);
}

void coded_outputs(const CodedProduct& product, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(CodedOutputs)(product, first, last);
}

}  // namespace fulmar
#endif
