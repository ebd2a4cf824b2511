// A tile of outputs lies in the lanes of a vector, so nothing is added across lanes; an unpacked
// weight is used for several rows.
#include "cpu/linear_coded.h"

#include <algorithm>
#include <utility>

#include "cpu/interleaved.h"
#include "cpu/simd_targets.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_coded.cpp"
// Vectors above 256 bits need AVX-512 with VNNI; without it, AVX2 is as quick.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS ((FULMAR_DISABLED_TARGETS & ~HWY_AVX3_DL) | HWY_AVX3)
#include "hwy/foreach_target.h"
#include "cpu/coded_blocks-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kLineBytes = 64;
// How far ahead to prefetch a tile, in bytes, into L1 and into L2, which can have more misses in flight:
// together they cover the latency of memory.
constexpr size_t kAheadL1 = kHasVnni ? 4096 : 2048, kAheadL2 = 16384;
// The factor that rounds smaller numbers to whole ones would not be finite; smaller activations count as 0.
constexpr float kLeastLargest = 1e-30f;

// ---- rounding

// Returns the largest magnitude of the numbers, or NaN where one is not finite.
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

// Rows that are multiplied together lie interleaved: of every kRun activations each row's digits, the highest
// first; after all of these, each row's factors of each share. So two addresses reach all of them.
constexpr size_t kRun = 32;

// Splits whole numbers into digits, kRun bytes from one digit to the next, and adds each digit to its sum.
template <size_t kDigits>
HWY_INLINE void store_digits(WholeVec whole, int8_t* to, WholeVec (&sum)[kDigits]) {
  const hn::Rebind<int8_t, Whole> d8;
  const auto mask = hn::Set(Whole(), (1 << kDigitBits) - 1);
  for (size_t i = kDigits; i-- > 0;) {
    const WholeVec digit = i == 0 ? whole : hn::And(whole, mask);
    hn::StoreU(hn::DemoteTo(d8, digit), d8, to + i * kRun);
    sum[i] = hn::Add(sum[i], digit);
    whole = hn::ShiftRight<kDigitBits>(whole);
  }
}

// A row's factors of a share.
template <size_t kDigits>
struct ShareFactors {
  float scale;
  union {
    int32_t start[kDigits];  // initial sum of each digit's products
    float sum;               // of the activations, for offsets that the format stores
  };
};

// Returns what codes exceed the numbers that scales multiply by: subtracted from whole sums, exactly.
template <class Loader>
constexpr int added_to_codes() {
  if constexpr (Loader::kSigned) return kAddedToSigned;
  if constexpr (Loader::kOffset == Offset::zero) return static_cast<int>(Loader::kZero);
  return 0;
}

// How a format needs its activations rounded.
struct Rounding {
  size_t share = 0;
  int added = 0;  // to codes
  bool stored_offset = false;
};

// Rounds the activations of one share, the first of which is number `at` of a row. `run` bytes lie between
// the digits of kRun activations and those of the next ones.
template <size_t kDigits>
HWY_INLINE ShareFactors<kDigits> round_share(const Rounding& rounding, const float* in, size_t at,
                                             int8_t* digits, size_t run) {
  constexpr int kMostRounded = 127 << (kDigits - 1) * kDigitBits;
  const Sums d;
  const float largest = largest_of(in + at, rounding.share);
  const auto per_unit = hn::Set(d, largest > kLeastLargest ? kMostRounded / largest : 0.0f);
  WholeVec sum[kDigits];
  for (WholeVec& digit : sum) digit = hn::Zero(Whole());
  for (size_t k = at; k < at + rounding.share; k += kLanes) {
    const WholeVec whole = hn::NearestInt(hn::Mul(hn::LoadU(d, in + k), per_unit));
    store_digits<kDigits>(whole, digits + k / kRun * run + k % kRun, sum);
  }
  ShareFactors<kDigits> factors{.scale = largest / kMostRounded, .start = {}};
  WholeVec all = hn::Zero(Whole());
  for (size_t i = 0; i < kDigits; ++i) {
    const WholeVec one = hn::SumOfLanes(Whole(), sum[i]);
    factors.start[i] = hn::GetLane(hn::Mul(one, hn::Set(Whole(), -rounding.added)));
    all = hn::Add(hn::ShiftLeft<kDigitBits>(all), one);
  }
  if (rounding.stored_offset) factors.sum = factors.scale * static_cast<float>(hn::GetLane(all));
  return factors;
}

// Returns the number of rows whose sums fit into the registers, with working values.
constexpr size_t rows_at_once(size_t digits) {
  if (kHasVnni) return digits == 1 ? 8 : 4;
  return digits == 1 ? 4 : 2;
}

template <size_t kDigits>
void round_shares(const Rounding& rounding, const RoundedRows& rows, int64_t row, const float* in,
                  float* to) {
  // The rows that are multiplied together with this one.
  auto count = static_cast<int64_t>(rows_at_once(kDigits));
  int64_t first = 0;
  while (row >= first + (rows.rows - first) / count * count) {
    first += (rows.rows - first) / count * count;
    count /= 2;
  }
  const int64_t place = (row - first) % count;
  const auto step = static_cast<size_t>(count);
  to += (row - place) * rounded_row_floats(rows.activations, rows.depth);
  auto* const digits = reinterpret_cast<int8_t*>(to) + static_cast<size_t>(place) * kDigits * kRun;
  auto* factors = reinterpret_cast<ShareFactors<kDigits>*>(
                      to + count * rounded_digit_floats(rows.activations, rows.depth)) +
                  place;
  for (size_t k = 0; k < static_cast<size_t>(rows.depth); k += rounding.share, factors += step) {
    *factors = round_share<kDigits>(rounding, in, k, digits, step * kDigits * kRun);
  }
}

// ---- products

// Rounded rows that are multiplied together, from some block on.
template <size_t kDigits, size_t kRows>
class RowsAtOnce {
 public:
  RowsAtOnce(const CodedProduct& p, int64_t row) {
    const float* const first = p.in + row * rounded_row_floats(p.activations, p.depth);
    digits_ = reinterpret_cast<const int8_t*>(first);
    factors_ = reinterpret_cast<const ShareFactors<kDigits>*>(
        first + static_cast<int64_t>(kRows) * rounded_digit_floats(p.activations, p.depth));
  }

  HWY_INLINE const int8_t* digits(size_t row, size_t digit, size_t at) const {
    return digits_ + ((at / kRun * kRows + row) * kDigits + digit) * kRun + at % kRun;
  }
  HWY_INLINE const ShareFactors<kDigits>& factors(size_t row, size_t share) const {
    return factors_[share * kRows + row];
  }
  HWY_INLINE void advance(size_t weights, size_t shares) {
    digits_ += weights * kRows * kDigits;
    factors_ += shares * kRows;
  }

 private:
  const int8_t* digits_ = nullptr;
  const ShareFactors<kDigits>* factors_ = nullptr;
};

// Multiplies four weights of each output by those of every row and digit.
template <class Loader, size_t kFirst, size_t kVector, size_t kDigits, size_t kRows>
HWY_INLINE void add_four(const TileBlock& block, const RowsAtOnce<kDigits, kRows>& in,
                         DotSum (&dot)[kRows][kDigits]) {
  constexpr size_t kAt = kFirst + 4 * kVector;
  const BytesVec codes = DotSum::counted<Loader::kSigned>(Loader::template codes<kAt>(block));
  for (size_t r = 0; r < kRows; ++r) {
    dot[r][0].template add<Loader::kSigned, true, kVector, Loader::kPairs>(codes, in.digits(r, 0, kAt));
    for (size_t i = 1; i < kDigits; ++i) {
      dot[r][i].template add<Loader::kSigned, false, kVector, Loader::kPairs>(codes, in.digits(r, i, kAt));
    }
  }
}

// Joins the digits' sums of a share. With codes of eight bits, 22 bits of activations exceed 32:
// their lowest digit joins in f32.
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

// How far a prefetch looks ahead of a block, in the order in which blocks are read: where two tiles are taken
// together, the next tile is the one after both.
class Lookahead {
 public:
  Lookahead(size_t bytes, size_t block_bytes, size_t blocks, const TileBlock& block)
      : bytes_(bytes + bytes / block_bytes / blocks * block.next_tile),
        blocks_(blocks),
        next_tile_(block.next_tile),
        place_(bytes / block_bytes % blocks) {}
  size_t bytes() const { return bytes_; }
  void advance() {
    if (++place_ < blocks_) return;
    place_ = 0;
    bytes_ += next_tile_;
  }

 private:
  size_t bytes_;
  const size_t blocks_, next_tile_;
  size_t place_;  // of the block that is looked at, in its tile
};

struct PrefetchAhead {
  size_t l1, l2;  // bytes
};

// Prefetches for a share some of the block's lines: all of them together are
// more than can be in flight.
template <class Loader, size_t kShareIndex>
HWY_INLINE void fetch_ahead(const TileBlock& block, const PrefetchAhead& ahead) {
  constexpr size_t kShares = Loader::kBlock / Loader::kShare;
  constexpr size_t kLines = (Loader::kBytes * kInterleavedOutputs + kLineBytes - 1) / kLineBytes;
  for (size_t line = kLines * kShareIndex / kShares; line < kLines * (kShareIndex + 1) / kShares; ++line) {
    const std::byte* const at = block.at + line * kLineBytes;
    __builtin_prefetch(at + ahead.l1);
    __builtin_prefetch(at + ahead.l2, 0, 2);
    if (kLanes == kInterleavedOutputs) continue;
    __builtin_prefetch(at + block.next_tile + ahead.l1);
    __builtin_prefetch(at + block.next_tile + ahead.l2, 0, 2);
  }
}

template <class Loader, size_t kShareIndex, size_t kDigits, size_t kRows, size_t... kVector>
HWY_INLINE void add_share(const TileBlock& block, const PrefetchAhead* ahead,
                          const RowsAtOnce<kDigits, kRows>& in, SumsVec (&sum)[kRows],
                          std::index_sequence<kVector...>) {
  if (ahead != nullptr) fetch_ahead<Loader, kShareIndex>(block, *ahead);
  DotSum dot[kRows][kDigits];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t i = 0; i < kDigits; ++i) {
      dot[r][i].start(added_to_codes<Loader>() == 0 ? 0 : in.factors(r, kShareIndex).start[i]);
    }
  }
  (add_four<Loader, kShareIndex * Loader::kShare, kVector>(block, in, dot), ...);
  const Sums d;
  const SumsVec scale = Loader::template scale<kShareIndex>(block);
  for (size_t r = 0; r < kRows; ++r) {
    const SumsVec whole = join_digits<Loader::kSigned>(dot[r]);
    const ShareFactors<kDigits>& factors = in.factors(r, kShareIndex);
    sum[r] = hn::MulAdd(whole, hn::Mul(scale, hn::Set(d, factors.scale)), sum[r]);
    if constexpr (Loader::kOffset == Offset::stored) {
      sum[r] = hn::MulAdd(Loader::template offset<kShareIndex>(block), hn::Set(d, factors.sum), sum[r]);
    }
  }
}

template <class Loader, size_t kDigits, size_t kRows, size_t... kShareIndex>
HWY_INLINE void add_block(const TileBlock& block, const PrefetchAhead* ahead,
                          const RowsAtOnce<kDigits, kRows>& in, SumsVec (&sum)[kRows],
                          std::index_sequence<kShareIndex...>) {
  (add_share<Loader, kShareIndex>(block, ahead, in, sum, std::make_index_sequence<Loader::kShare / 4>()),
   ...);
}

// Returns the first block of the outputs from `first` on, at most kLanes and up to `last`.
template <class Loader>
TileBlock first_block(const CodedProduct& p, int64_t first, int64_t last) {
  const auto tile = static_cast<size_t>(first / kInterleavedOutputs);
  const size_t tile_bytes =
      static_cast<size_t>(p.depth) / Loader::kBlock * Loader::kBytes * kInterleavedOutputs;
  const size_t tile_scales =
      p.scales == nullptr ? 0 : static_cast<size_t>(p.depth / p.group * kInterleavedOutputs);
  TileBlock block{p.weight + tile * tile_bytes, p.scales + tile * tile_scales,
                  static_cast<size_t>(first % kInterleavedOutputs)};
  if (kLanes > kInterleavedOutputs && last - first > kInterleavedOutputs) {
    block.next_tile = tile_bytes;
    block.next_scales = tile_scales * sizeof(float);
  }
  return block;
}

// Computes the sums of kLanes outputs and of some rows.
template <class Loader, size_t kDigits, size_t kRows>
HWY_INLINE void multiply_tile(const CodedProduct& p, TileBlock block, bool fetch,
                              RowsAtOnce<kDigits, kRows> in, SumsVec (&sum)[kRows]) {
  constexpr size_t kShares = Loader::kBlock / Loader::kShare;
  constexpr size_t kBlockBytes = Loader::kBytes * kInterleavedOutputs;
  const size_t blocks = static_cast<size_t>(p.depth) / Loader::kBlock;
  for (SumsVec& row : sum) row = hn::Zero(Sums());
  Lookahead into_l1(kAheadL1, kBlockBytes, blocks, block), into_l2(kAheadL2, kBlockBytes, blocks, block);
  int64_t in_group = 0;
  for (size_t b = 0; b < blocks; ++b) {
    const PrefetchAhead ahead{into_l1.bytes(), into_l2.bytes()};
    add_block<Loader>(block, fetch ? &ahead : nullptr, in, sum, std::make_index_sequence<kShares>());
    into_l1.advance(), into_l2.advance();
    block.at += kBlockBytes;
    in.advance(Loader::kBlock, kShares);
    in_group += Loader::kBlock;
    if (in_group == p.group) {
      block.scales += kInterleavedOutputs;
      in_group = 0;
    }
  }
}

// Computes the outputs [first, last) of kRows rows from `row` on.
template <class Loader, size_t kDigits, size_t kRows>
void multiply_rows(const CodedProduct& p, int64_t first, int64_t last, int64_t row) {
  for (int64_t o = first; o < last; o += static_cast<int64_t>(kLanes)) {
    SumsVec sum[kRows];
    multiply_tile<Loader>(p, first_block<Loader>(p, o, last), row == 0, RowsAtOnce<kDigits, kRows>(p, row),
                          sum);
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

// Computes the outputs [first, last) of the rows from `row` on: kRows of them with all of these weights,
// which are then in cache, then the next ones; the rest, half as many at a time.
template <class Loader, size_t kDigits, size_t kRows>
void multiply(const CodedProduct& p, int64_t first, int64_t last, int64_t row = 0) {
  for (; row + static_cast<int64_t>(kRows) <= p.rows; row += kRows) {
    multiply_rows<Loader, kDigits, kRows>(p, first, last, row);
  }
  if constexpr (kRows > 1) {
    if (row < p.rows) multiply<Loader, kDigits, kRows / 2>(p, first, last, row);
  }
}

void CodedOutputs(const CodedProduct& p, int64_t first, int64_t last) {
  with_loader(p.dtype, [&](auto loader) {
    switch (p.activations) {
      case CodedActivations::bits8:
        return multiply<decltype(loader), 1, rows_at_once(1)>(p, first, last);
      case CodedActivations::bits15:
        return multiply<decltype(loader), 2, rows_at_once(2)>(p, first, last);
      case CodedActivations::bits22:
        return multiply<decltype(loader), 3, rows_at_once(3)>(p, first, last);
    }
  });
}

void RoundRow(const RoundedRows& rows, int64_t row, const float* in, float* to) {
  Rounding rounding;
  with_loader(rows.dtype, [&](auto loader) {
    using Loader = decltype(loader);
    rounding = {Loader::kShare, added_to_codes<Loader>(), Loader::kOffset == Offset::stored};
  });
  switch (rows.activations) {
    case CodedActivations::bits8:
      return round_shares<1>(rounding, rows, row, in, to);
    case CodedActivations::bits15:
      return round_shares<2>(rounding, rows, row, in, to);
    case CodedActivations::bits22:
      return round_shares<3>(rounding, rows, row, in, to);
  }
}

bool HasLoader(DType dtype) {
  return with_loader(dtype, [](auto) {});
}

bool HasVnni() { return kHasVnni; }

#else

bool HasVnni() { return false; }
void CodedOutputs(const CodedProduct&, int64_t, int64_t) {}
void RoundRow(const RoundedRows&, int64_t, const float*, float*) {}
bool HasLoader(DType) { return false; }

#endif

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fulmar {

HWY_EXPORT(CodedOutputs);
HWY_EXPORT(RoundRow);
HWY_EXPORT(HasLoader);
HWY_EXPORT(HasVnni);

bool has_vnni() { return HWY_DYNAMIC_DISPATCH(HasVnni)(); }

bool multiplies_codes(DType dtype) { return HWY_DYNAMIC_DISPATCH(HasLoader)(dtype); }

void round_row(const RoundedRows& rows, int64_t row, const float* in, float* to) {
  HWY_DYNAMIC_DISPATCH(RoundRow)(rows, row, in, to);
}

void coded_outputs(const CodedProduct& product, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(CodedOutputs)(product, first, last);
}

}  // namespace fulmar
#endif
