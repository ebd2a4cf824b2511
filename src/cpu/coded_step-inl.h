// What the loaders of quantised weights are made of: vector types, bytes to numbers, and the gathering of
// factors. Per-target code: included once for every instruction set by files that use hwy/foreach_target.h.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/weight_load-inl.h"
#include "hwy/highway.h"

#if defined(FULMAR_CPU_CODED_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FULMAR_CPU_CODED_STEP_INL_H_
#undef FULMAR_CPU_CODED_STEP_INL_H_
#else
#define FULMAR_CPU_CODED_STEP_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kStepWeights = 256;

// Vectors of at most 256 bits: half a block of 32 fills one, and so it does not matter how wide others are.
using Codes = hn::CappedTag<int16_t, 16>;
using CodesVec = hn::Vec<Codes>;
using Sums = hn::CappedTag<float, 8>;
using SumsVec = hn::Vec<Sums>;
using Whole = hn::RebindToSigned<Sums>;
constexpr size_t kCodeLanes = hn::MaxLanes(Codes());
constexpr size_t kSumLanes = hn::MaxLanes(Sums());

// A step of a row.
struct CodedStep {
  const std::byte* codes = nullptr;
  const float* scales = nullptr;  // of the row's first weight, of formats with scales beside their codes
  size_t group = 0;               // weights that share such a scale; a multiple of 32
  size_t first = 0;               // the step's first weight in the row
};

enum class Offset : uint8_t {
  none,    // all are 0
  zero,    // -kZero * scale
  stored,  // the format has them
};

// The factors of a step's shares in order.
template <size_t kShare>
struct Factors {
  static constexpr size_t kVectors = kStepWeights / kShare / kSumLanes;
  HWY_INLINE Factors() {}  // an implicit one would not be compiled for this instruction set
  SumsVec scale[kVectors];
  SumsVec offset[kVectors];  // set where they are stored
};

// ---- bytes to numbers

HWY_INLINE CodesVec load_bytes(const std::byte* from) {
  const hn::Rebind<uint8_t, Codes> d;
  return hn::PromoteTo(Codes(), hn::LoadU(d, reinterpret_cast<const uint8_t*>(from)));
}

HWY_INLINE CodesVec load_signed_bytes(const std::byte* from) {
  const hn::Rebind<int8_t, Codes> d;
  return hn::PromoteTo(Codes(), hn::LoadU(d, reinterpret_cast<const int8_t*>(from)));
}

template <class Byte>
HWY_INLINE SumsVec load_as_f32(const Byte* from) {
  const hn::Rebind<Byte, Sums> d;
  return hn::ConvertTo(Sums(), hn::PromoteTo(Whole(), hn::LoadU(d, from)));
}

// Bits kFrom, kFrom + 1, ... of each number, as many as kMask has, at the place of kMask.
template <int kFrom, int kTo, int kMask>
HWY_INLINE CodesVec bits(CodesVec v) {
  const auto mask = hn::Set(Codes(), static_cast<int16_t>(kMask));
  if constexpr (kFrom > kTo) {
    const CodesVec moved = hn::ShiftRight<kFrom - kTo>(v);
    return kTo == 0 && kMask == 255 >> kFrom ? moved : hn::And(moved, mask);  // nothing else is left
  } else if constexpr (kFrom < kTo) {
    return hn::And(hn::ShiftLeft<kTo - kFrom>(v), mask);
  } else {
    return hn::And(v, mask);
  }
}

// The nibbles of 16 bytes: the low ones of all, then the high ones.
template <size_t kAt>
HWY_INLINE CodesVec half_nibbles(const std::byte* from) {
  return bits<kAt / 16 * 4, 0, 15>(load_bytes(from + kAt % 16));
}

// The nibbles of neighbours, two a byte.
template <bool kLowFirst>
HWY_INLINE hn::Vec<hn::Rebind<uint8_t, Codes>> pair_nibbles(const std::byte* from) {
  const hn::Rebind<uint8_t, Codes> d;
  const hn::Half<decltype(d)> half;
  const auto both = hn::ZeroExtendVector(d, hn::LoadU(half, reinterpret_cast<const uint8_t*>(from)));
  const auto low = hn::And(both, hn::Set(d, uint8_t{15}));
  const auto high = hn::ShiftRight<4>(both);
  return kLowFirst ? hn::InterleaveLower(d, low, high) : hn::InterleaveLower(d, high, low);
}

// table[index] of 16 bytes.
HWY_INLINE hn::Vec<hn::Rebind<uint8_t, Codes>> look_up(const uint8_t* table,
                                                       hn::Vec<hn::Rebind<uint8_t, Codes>> index) {
  return hn::TableLookupBytes(hn::Load(hn::Full128<uint8_t>(), table), index);
}

// ---- factors

// The f16 factors of `count` blocks kBytes apart, one a lane; 0 in the others.
template <size_t kBytes>
HWY_INLINE SumsVec gather_factors(const std::byte* from, size_t count) {
  HWY_ALIGN hwy::float16_t raw[kSumLanes];
  if (count >= kSumLanes) {
    for (size_t i = 0; i < kSumLanes; ++i) std::memcpy(static_cast<void*>(raw + i), from + i * kBytes, 2);
  } else {
    std::memset(static_cast<void*>(raw), 0, sizeof(raw));
    for (size_t i = 0; i < count; ++i) std::memcpy(static_cast<void*>(raw + i), from + i * kBytes, 2);
  }
  return hn::PromoteTo(Sums(), hn::Load(hn::Rebind<hwy::float16_t, Sums>(), raw));
}

#if HWY_CAP_GE256
// Where the factors of blocks 2j and 2j + 1, the first bytes of the lower half of a vector and those at
// kBytes - 16 of the upper half, go among the factors of even blocks and of odd ones.
template <size_t kBytes>
struct PairPlaces {
  alignas(32) uint8_t from[4][32];
};
template <size_t kBytes>
constexpr PairPlaces<kBytes> make_pair_places() {
  PairPlaces<kBytes> made{};
  for (size_t j = 0; j < 4; ++j) {
    for (uint8_t& place : made.from[j]) place = 0x80;
    for (size_t i = 0; i < 2; ++i) {
      made.from[j][2 * j + i] = static_cast<uint8_t>(i);
      made.from[j][16 + 2 * j + i] = static_cast<uint8_t>(kBytes - 16 + i);
    }
  }
  return made;
}

// The factors of eight blocks of 16 to 30 bytes: two by each load.
template <size_t kBytes>
HWY_INLINE SumsVec gather_pairs(const std::byte* from) {
  static constexpr PairPlaces<kBytes> kPlaces = make_pair_places<kBytes>();
  const hn::Full256<uint8_t> d;
  const hn::Full128<uint16_t> d16;
  auto all = hn::Zero(d);
  for (size_t j = 0; j < 4; ++j) {
    const auto pair = hn::LoadU(d, reinterpret_cast<const uint8_t*>(from + 2 * j * kBytes));
    all = hn::Or(all, hn::TableLookupBytesOr0(pair, hn::Load(d, kPlaces.from[j])));
  }
  const auto even = hn::BitCast(d16, hn::LowerHalf(all)),
             odd = hn::BitCast(d16, hn::UpperHalf(hn::Full128<uint8_t>(), all));
  return hn::PromoteTo(Sums(),
                       hn::BitCast(hn::Full128<hwy::float16_t>(), hn::InterleaveLower(d16, even, odd)));
}
#endif

// Those of all blocks of 32 of a step, kAt bytes into each block.
template <size_t kBytes, size_t kAt = 0>
HWY_INLINE void gather_all(const std::byte* from, size_t count, SumsVec (&to)[Factors<32>::kVectors]) {
#if HWY_CAP_GE256
  // The last load must not leave the blocks.
  if constexpr (kBytes <= 30 && 2 * kBytes >= 32 + kAt) {
    if (count >= kSumLanes) {
      to[0] = gather_pairs<kBytes>(from + kAt);
      return;
    }
  }
#endif
  for (size_t v = 0; v < Factors<32>::kVectors; ++v) {
    to[v] = gather_factors<kBytes>(from + kAt, count);
    from += kSumLanes * kBytes;
    count -= std::min(count, kSumLanes);
  }
}

// One f16 factor in all lanes.
HWY_INLINE SumsVec load_factor(const std::byte* from) {
  const hn::Rebind<hwy::float16_t, Sums> d;
  uint16_t stored;
  std::memcpy(&stored, from, sizeof(stored));
  return hn::PromoteTo(Sums(), hn::BitCast(d, hn::Set(hn::Rebind<uint16_t, Sums>(), stored)));
}

// The scales of a whole step whose groups have kGroup weights.
template <size_t kGroup>
HWY_INLINE void spread_scales(const float* from, SumsVec (&to)[Factors<32>::kVectors]) {
  const Sums d;
  for (size_t v = 0; v < Factors<32>::kVectors; ++v) {
    size_t index = v * kSumLanes * 32 / kGroup;
    to[v] = hn::Set(d, from[index]);
    for (size_t lane = 1; lane < kSumLanes; ++lane) {
      if ((v * kSumLanes + lane) * 32 % kGroup != 0) continue;
      to[v] = hn::IfThenElse(hn::FirstN(d, lane), to[v], hn::Set(d, from[++index]));
    }
  }
}

// Scales that lie beside the codes, of shares of 32.
HWY_INLINE void factors_beside(const CodedStep& step, size_t shares, SumsVec (&to)[Factors<32>::kVectors]) {
  constexpr size_t kShares = kStepWeights / 32;
  const float* from = step.scales + step.first / step.group;
  if (shares == kShares && step.group % kStepWeights == 0) {
    return spread_scales<kStepWeights>(from, to);
  }
  if (shares == kShares && step.group == 128) return spread_scales<128>(from, to);
  if (shares == kShares && step.group == 64) return spread_scales<64>(from, to);
  HWY_ALIGN float scale[kShares] = {};
  size_t remaining = step.group - step.first % step.group;
  for (size_t i = 0; i < shares; ++i) {
    scale[i] = *from;
    remaining -= 32;
    if (remaining > 0) continue;
    remaining = step.group;
    ++from;
  }
  for (size_t v = 0; v < Factors<32>::kVectors; ++v) to[v] = hn::Load(Sums(), scale + v * kSumLanes);
}

// A super-block's small scales times its factor.
template <class Byte, size_t kVectors>
HWY_INLINE void scale_shares(const Byte* small, SumsVec factor, SumsVec (&to)[kVectors]) {
  for (size_t v = 0; v < kVectors; ++v) to[v] = hn::Mul(load_as_f32(small + v * kSumLanes), factor);
}

// The eight 6-bit scales and minima of q4_k and q5_k, four bytes at once.
HWY_INLINE void split_scales12(const std::byte* from, uint8_t* scale, uint8_t* minimum) {
  uint32_t one, two, three;
  std::memcpy(&one, from, 4);
  std::memcpy(&two, from + 4, 4);
  std::memcpy(&three, from + 8, 4);
  const uint64_t high_scales = (three & 0x0f0f0f0f) | (one >> 6 & 0x03030303) << 4;
  const uint64_t high_minima = (three >> 4 & 0x0f0f0f0f) | (two >> 6 & 0x03030303) << 4;
  const uint64_t scales = (one & 0x3f3f3f3f) | high_scales << 32;
  const uint64_t minima = (two & 0x3f3f3f3f) | high_minima << 32;
  std::memcpy(scale, &scales, 8);
  std::memcpy(minimum, &minima, 8);
}

// The sixteen 6-bit scales of q3_k, which count from 32.
HWY_INLINE void split_scales6(const std::byte* from, int8_t* scale) {
  uint32_t one, two, high;
  std::memcpy(&one, from, 4);
  std::memcpy(&two, from + 4, 4);
  std::memcpy(&high, from + 8, 4);
  const uint64_t low = one | static_cast<uint64_t>(two) << 32;
  const uint64_t first = (low & 0x0f0f0f0f0f0f0f0f) |
                         ((high & 0x03030303) | static_cast<uint64_t>(high >> 2 & 0x03030303) << 32) << 4;
  const uint64_t second = (low >> 4 & 0x0f0f0f0f0f0f0f0f) |
                          ((high >> 4 & 0x03030303) | static_cast<uint64_t>(high >> 6 & 0x03030303) << 32)
                              << 4;
  // Each byte less 32: where its bit 5 is not set, that and the bits above become the sign.
  const auto less32 = [](uint64_t x) { return (x & 0x1f1f1f1f1f1f1f1f) | 7 * (~x & 0x2020202020202020); };
  const uint64_t both[2] = {less32(first), less32(second)};
  std::memcpy(scale, both, 16);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
