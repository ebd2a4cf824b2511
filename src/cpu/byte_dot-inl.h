// Exact dot products of bytes: four codes of each weight row with four digits of rounded activations.
// Per-target code: included once for every instruction set by files that use hwy/foreach_target.h.
//
// An activation is a whole number of up to three digits to the base 128: the highest has a sign and lies in
// [-127, 127], the others in [0, 127]. Codes lie in [0, 127], or in [-128, 127] where they have a sign. So
// products of two neighbours fit into the 16 bits in which AVX2 adds them up, saturating (`pmaddubsw`).
// AVX-512 VNNI adds four up in 32 bits (`vpdpbusd`).
//
// A DotSum is a running sum of each output. It starts from a number, and has
//   counted(codes)       the codes in the form that add() takes, the same for all rows
//   add(codes, digits)   adds the products of four codes of each output
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

#if defined(FULMAR_CPU_BYTE_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FULMAR_CPU_BYTE_DOT_INL_H_
#undef FULMAR_CPU_BYTE_DOT_INL_H_
#else
#define FULMAR_CPU_BYTE_DOT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

// True if one instruction multiplies and adds up four bytes of each of 16 outputs.
constexpr bool kHasVnni = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL;

// Four bytes of each of up to eight outputs, or 16, and a number for each.
using Bytes = hn::CappedTag<uint8_t, kHasVnni ? 64 : 32>;
using BytesVec = hn::Vec<Bytes>;
using SignedBytes = hn::RebindToSigned<Bytes>;
using SignedBytesVec = hn::Vec<SignedBytes>;
using Pairs = hn::RepartitionToWide<SignedBytes>;
using PairsVec = hn::Vec<Pairs>;
using Whole = hn::RepartitionToWide<Pairs>;
using WholeVec = hn::Vec<Whole>;
using Sums = hn::RebindToFloat<Whole>;
using SumsVec = hn::Vec<Sums>;
constexpr size_t kLanes = hn::MaxLanes(Sums());  // outputs

constexpr int kDigitBits = 7;

// Returns four digits repeated in every lane.
HWY_INLINE SignedBytesVec spread_digits(const int8_t* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof(four));
  return hn::BitCast(SignedBytes(), hn::Set(Whole(), four));
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL

// Added to signed codes by DotSum: `vpdpbusd` takes unsigned bytes as its first operand.
constexpr int kAddedToSigned = 128;

class DotSum {
 public:
  HWY_INLINE DotSum() {}

  HWY_INLINE void start(int32_t from) { whole_ = hn::Set(Whole(), from); }

  template <bool kSigned>
  static HWY_INLINE BytesVec counted(BytesVec codes) {
    return kSigned ? hn::Xor(codes, hn::Set(Bytes(), uint8_t{kAddedToSigned})) : codes;
  }

  // Adds products by inline assembly: libhwy 1.0 lacks the intrinsic, and compilers load digits first.
  template <bool, bool, size_t, size_t>
  HWY_INLINE void add(BytesVec codes, const int8_t* digits) {
    const auto& four = *reinterpret_cast<const char(*)[4]>(digits);
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(whole_.raw) : "v"(codes.raw), "m"(four));
  }

  HWY_INLINE WholeVec get() const { return whole_; }

 private:
  WholeVec whole_;
};

#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4

constexpr int kAddedToSigned = 0;

// Returns sums of two neighbouring products, of unsigned bytes and signed ones.
HWY_INLINE PairsVec pair_products(BytesVec a, SignedBytesVec b) {
#if HWY_TARGET == HWY_SSE4
  return PairsVec{_mm_maddubs_epi16(a.raw, b.raw)};
#else
  return PairsVec{_mm256_maddubs_epi16(a.raw, b.raw)};
#endif
}

// Returns x where `of` is above 0, -x where it is below, 0 where it is 0.
HWY_INLINE SignedBytesVec with_sign_of(SignedBytesVec x, SignedBytesVec of) {
#if HWY_TARGET == HWY_SSE4
  return SignedBytesVec{_mm_sign_epi8(x.raw, of.raw)};
#else
  return SignedBytesVec{_mm256_sign_epi8(x.raw, of.raw)};
#endif
}

// Forces a sum to be computed here: otherwise compilers add up after all products, of which
// there are more than registers.
HWY_INLINE void pin_sum(PairsVec& sum) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  asm("" : "+x"(sum.raw));
#endif
}

// Adds products in 16 bits as long as they fit.
class DotSum {
 public:
  HWY_INLINE DotSum() {}

  HWY_INLINE void start(int32_t from) { whole_ = hn::Set(Whole(), from); }

  template <bool>
  static HWY_INLINE BytesVec counted(BytesVec codes) {
    return codes;
  }

  // Adds products by the highest digits, or others. kAt: calls so far; kMost of them fit into 16 bits.
  template <bool kSigned, bool kHighest, size_t kAt, size_t kMost>
  HWY_INLINE void add(BytesVec codes, const int8_t* from) {
    const SignedBytesVec digits = spread_digits(from);
    const SignedBytesVec with_sign = hn::BitCast(SignedBytes(), codes);
    PairsVec products;
    if constexpr (!kSigned) {
      products = pair_products(codes, digits);
    } else if constexpr (kHighest) {
      const BytesVec size = hn::BitCast(Bytes(), hn::Abs(with_sign));  // 128 where the code is -128
      products = pair_products(size, with_sign_of(digits, with_sign));
    } else {
      products = pair_products(hn::BitCast(Bytes(), digits), with_sign);
    }
    pairs_ = kAt % kMost == 0 ? products : hn::Add(pairs_, products);
    pin_sum(pairs_);
    if constexpr (kAt % kMost == kMost - 1) {
      WholeVec unused = hn::Zero(Whole());
      whole_ = hn::ReorderWidenMulAccumulate(Whole(), pairs_, hn::Set(Pairs(), 1), whole_, unused);
    }
  }

  HWY_INLINE WholeVec get() const { return whole_; }

 private:
  PairsVec pairs_;
  WholeVec whole_;
};

#else

constexpr int kAddedToSigned = 0;

// Returns the sum of four products in each lane.
HWY_INLINE WholeVec dot_four(SignedBytesVec a, SignedBytesVec b) {
#if HWY_ARCH_ARM_A64 && defined(__ARM_FEATURE_DOTPROD)
  return WholeVec(vdotq_s32(vdupq_n_s32(0), a.raw, b.raw));
#elif HWY_ARCH_ARM_A64
  const int32x4_t lower = vpaddlq_s16(vmull_s8(vget_low_s8(a.raw), vget_low_s8(b.raw)));
  return WholeVec(vpaddq_s32(lower, vpaddlq_s16(vmull_high_s8(a.raw, b.raw))));
#else
  const WholeVec a4 = hn::BitCast(Whole(), a), b4 = hn::BitCast(Whole(), b);
  const auto of = [](WholeVec v) { return hn::ShiftRight<24>(v); };
  WholeVec sum = hn::Mul(of(a4), of(b4));
  sum = hn::Add(sum, hn::Mul(of(hn::ShiftLeft<8>(a4)), of(hn::ShiftLeft<8>(b4))));
  sum = hn::Add(sum, hn::Mul(of(hn::ShiftLeft<16>(a4)), of(hn::ShiftLeft<16>(b4))));
  return hn::Add(sum, hn::Mul(of(hn::ShiftLeft<24>(a4)), of(hn::ShiftLeft<24>(b4))));
#endif
}

class DotSum {
 public:
  HWY_INLINE DotSum() {}

  HWY_INLINE void start(int32_t from) { whole_ = hn::Set(Whole(), from); }

  template <bool>
  static HWY_INLINE BytesVec counted(BytesVec codes) {
    return codes;
  }

  template <bool, bool, size_t, size_t>
  HWY_INLINE void add(BytesVec codes, const int8_t* digits) {
    whole_ = hn::Add(whole_, dot_four(hn::BitCast(SignedBytes(), codes), spread_digits(digits)));
  }

  HWY_INLINE WholeVec get() const { return whole_; }

 private:
  WholeVec whole_;
};

#endif

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
