// Loaders of quantised weights, one a format: a row's weights as small whole numbers, in order, and the f32
// factors that neighbours share. NF4 and FP8, whose codes stand for no whole numbers, have none. Per-target
// code: included once for every instruction set by files that use hwy/foreach_target.h.
//
// weight = scale * code + offset, where kShare consecutive weights have the same scale and offset. Weights
// are taken in steps of 256, or of fewer whole blocks at the end of a row. A loader has
//   kShare    weights that share their factors: 16 or 32
//   kBlock    weights that are stored as one: 32, or a whole step
//   kBytes    of such a block
//   kOffset   where offsets come from
//   kZero     the code of the number 0 where they come from that
//   factors() those of the first `shares` shares of a step; all others are 0
//   codes<A>  the codes of weights A, A + 1, ... of a block, as many as a vector has lanes
// Layouts: tensor/blocks32.h, tensor/blocks256.h, tensor/scaled_codes.h.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cpu/coded_step-inl.h"
#include "hwy/highway.h"
#include "tensor/blocks32.h"

#if defined(FULMAR_CPU_CODED_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FULMAR_CPU_CODED_BLOCKS_INL_H_
#undef FULMAR_CPU_CODED_BLOCKS_INL_H_
#else
#define FULMAR_CPU_CODED_BLOCKS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// ---- blocks of 32 with their scale inside

// q4_0, q4_1, q5_0 and q5_1. kMinimum: the offset is stored; otherwise codes count from the middle.
template <bool kFifth, bool kMinimum>
struct EvenBlock {
  static constexpr size_t kShare = 32, kBlock = 32, kFifthAt = kMinimum ? 4 : 2;
  static constexpr size_t kCodesAt = kFifthAt + (kFifth ? 4 : 0), kBytes = kCodesAt + 16;
  static constexpr Offset kOffset = kMinimum ? Offset::stored : Offset::zero;
  static constexpr float kZero = kFifth ? 16 : 8;

  static HWY_INLINE void factors(const CodedStep& step, size_t shares, Factors<kShare>& to) {
    gather_all<kBytes>(step.codes, shares, to.scale);
    if constexpr (kMinimum) gather_all<kBytes, 2>(step.codes, shares, to.offset);
  }

  template <size_t kAt>
  static HWY_INLINE CodesVec codes(const std::byte* block) {
    const CodesVec low = half_nibbles<kAt>(block + kCodesAt);
    if constexpr (!kFifth) {
      return low;
    } else {
      HWY_ALIGN static constexpr uint16_t kBit[16] = {1,   2,   4,    8,    16,   32,   64,    128,
                                                      256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
      const hn::RebindToUnsigned<Codes> d;
      uint16_t half;
      std::memcpy(&half, block + kFifthAt + kAt / 16 * 2, sizeof(half));
      const auto set = hn::TestBit(hn::Set(d, half), hn::Load(d, kBit + kAt % 16));
      return hn::Or(low, hn::BitCast(Codes(), hn::IfThenElseZero(set, hn::Set(d, uint16_t{16}))));
    }
  }
};

struct Q8Block {
  static constexpr size_t kShare = 32, kBlock = 32, kBytes = 34;
  static constexpr Offset kOffset = Offset::none;

  static HWY_INLINE void factors(const CodedStep& step, size_t shares, Factors<kShare>& to) {
    gather_all<kBytes>(step.codes, shares, to.scale);
  }
  template <size_t kAt>
  static HWY_INLINE CodesVec codes(const std::byte* block) {
    return load_signed_bytes(block + 2 + kAt);
  }
};

struct Iq4Block {
  static constexpr size_t kShare = 32, kBlock = 32, kBytes = 18;
  static constexpr Offset kOffset = Offset::none;

  static HWY_INLINE void factors(const CodedStep& step, size_t shares, Factors<kShare>& to) {
    gather_all<kBytes>(step.codes, shares, to.scale);
  }
  template <size_t kAt>
  static HWY_INLINE CodesVec codes(const std::byte* block) {
    const hn::Rebind<uint8_t, Codes> d;
    const auto both = hn::LoadU(d, reinterpret_cast<const uint8_t*>(block + 2 + kAt % 16));
    const auto index = kAt < 16 ? hn::And(both, hn::Set(d, uint8_t{15})) : hn::ShiftRight<4>(both);
    HWY_ALIGN static constexpr int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
    const auto level = look_up(reinterpret_cast<const uint8_t*>(kLevels), index);
    return hn::PromoteTo(Codes(), hn::BitCast(hn::Rebind<int8_t, Codes>(), level));
  }
};

// ---- super-blocks of 256

template <bool kFifth>
struct Q45KBlock {
  static constexpr size_t kShare = 32, kBlock = 256, kCodesAt = kFifth ? 48 : 16, kBytes = kCodesAt + 128;
  static constexpr Offset kOffset = Offset::stored;

  static HWY_INLINE void factors(const CodedStep& step, size_t, Factors<kShare>& to) {
    uint8_t small[8], minimum[8];
    split_scales12(step.codes + 4, small, minimum);
    scale_shares(small, load_factor(step.codes), to.scale);
    scale_shares(minimum, hn::Neg(load_factor(step.codes + 2)), to.offset);
  }
  template <size_t kAt>
  static HWY_INLINE CodesVec codes(const std::byte* block) {
    constexpr size_t kPart = kAt / 64, kHigh = kAt % 64 / 32, kByte = kAt % 32;
    const CodesVec low = bits<kHigh * 4, 0, 15>(load_bytes(block + kCodesAt + 32 * kPart + kByte));
    if constexpr (!kFifth) {
      return low;
    } else {
      return hn::Or(low, bits<static_cast<int>(2 * kPart + kHigh), 4, 16>(load_bytes(block + 16 + kByte)));
    }
  }
};

// Where a weight of q2_k, q3_k and q6_k lies: half, field within the half's bytes, byte.
template <size_t kAt>
struct FieldOf {
  static constexpr size_t kHalf = kAt / 128, kByte = kAt % 32;
  static constexpr int kField = static_cast<int>(kAt % 128 / 32);
};

struct Q6KBlock {
  static constexpr size_t kShare = 16, kBlock = 256, kBytes = 210;
  static constexpr Offset kOffset = Offset::zero;
  static constexpr float kZero = 32;

  static HWY_INLINE void factors(const CodedStep& step, size_t, Factors<kShare>& to) {
    scale_shares(reinterpret_cast<const int8_t*>(step.codes + 192), load_factor(step.codes + 208), to.scale);
  }
  template <size_t kAt>
  static HWY_INLINE CodesVec codes(const std::byte* block) {
    using Field = FieldOf<kAt>;
    constexpr int j = Field::kField;
    const CodesVec low = load_bytes(block + 64 * Field::kHalf + 32 * (j % 2) + Field::kByte);
    const CodesVec high = load_bytes(block + 128 + 32 * Field::kHalf + Field::kByte);
    return hn::Or(bits<j / 2 * 4, 0, 15>(low), bits<2 * j, 4, 48>(high));
  }
};

struct Q3KBlock {
  static constexpr size_t kShare = 16, kBlock = 256, kBytes = 110;
  static constexpr Offset kOffset = Offset::zero;
  static constexpr float kZero = 4;

  static HWY_INLINE void factors(const CodedStep& step, size_t, Factors<kShare>& to) {
    int8_t small[16];
    split_scales6(step.codes + 96, small);
    scale_shares(small, load_factor(step.codes + 108), to.scale);
  }
  template <size_t kAt>
  static HWY_INLINE CodesVec codes(const std::byte* block) {
    using Field = FieldOf<kAt>;
    constexpr int j = Field::kField;
    const CodesVec low = load_bytes(block + 32 + 32 * Field::kHalf + Field::kByte);
    const CodesVec high = load_bytes(block + Field::kByte);
    return hn::Or(bits<2 * j, 0, 3>(low), bits<static_cast<int>(4 * Field::kHalf) + j, 2, 4>(high));
  }
};

struct Q2KBlock {
  static constexpr size_t kShare = 16, kBlock = 256, kBytes = 84;
  static constexpr Offset kOffset = Offset::stored;

  static HWY_INLINE void factors(const CodedStep& step, size_t, Factors<kShare>& to) {
    uint64_t both[2], small[2], minimum[2];
    std::memcpy(both, step.codes, 16);
    for (size_t i = 0; i < 2; ++i) {
      small[i] = both[i] & 0x0f0f0f0f0f0f0f0f;
      minimum[i] = both[i] >> 4 & 0x0f0f0f0f0f0f0f0f;
    }
    scale_shares(reinterpret_cast<const uint8_t*>(small), load_factor(step.codes + 80), to.scale);
    scale_shares(reinterpret_cast<const uint8_t*>(minimum), hn::Neg(load_factor(step.codes + 82)), to.offset);
  }
  template <size_t kAt>
  static HWY_INLINE CodesVec codes(const std::byte* block) {
    using Field = FieldOf<kAt>;
    return bits<2 * Field::kField, 0, 3>(load_bytes(block + 16 + 32 * Field::kHalf + Field::kByte));
  }
};

// ---- codes with scales beside them

struct Int8Codes {
  static constexpr size_t kShare = 32, kBlock = 32, kBytes = 32;
  static constexpr Offset kOffset = Offset::none;

  static HWY_INLINE void factors(const CodedStep& step, size_t shares, Factors<kShare>& to) {
    factors_beside(step, shares, to.scale);
  }
  template <size_t kAt>
  static HWY_INLINE CodesVec codes(const std::byte* block) {
    return load_signed_bytes(block + kAt);
  }
};

struct Int4Codes {
  static constexpr size_t kShare = 32, kBlock = 32, kBytes = 16;
  static constexpr Offset kOffset = Offset::none;

  static HWY_INLINE void factors(const CodedStep& step, size_t shares, Factors<kShare>& to) {
    factors_beside(step, shares, to.scale);
  }
  template <size_t kAt>
  static HWY_INLINE CodesVec codes(const std::byte* block) {
    HWY_ALIGN static constexpr int8_t kSigned[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    const auto level =
        look_up(reinterpret_cast<const uint8_t*>(kSigned), pair_nibbles<true>(block + kAt / 2));
    return hn::PromoteTo(Codes(), hn::BitCast(hn::Rebind<int8_t, Codes>(), level));
  }
};

// ---- the table of loaders

// body(loader) for the loader of a format; false where it has none.
template <class Body>
HWY_INLINE bool with_loader(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::q4_0:
      return body(EvenBlock<false, false>()), true;
    case DType::q4_1:
      return body(EvenBlock<false, true>()), true;
    case DType::q5_0:
      return body(EvenBlock<true, false>()), true;
    case DType::q5_1:
      return body(EvenBlock<true, true>()), true;
    case DType::q8_0:
      return body(Q8Block()), true;
    case DType::iq4_nl:
      return body(Iq4Block()), true;
    case DType::q2_k:
      return body(Q2KBlock()), true;
    case DType::q3_k:
      return body(Q3KBlock()), true;
    case DType::q4_k:
      return body(Q45KBlock<false>()), true;
    case DType::q5_k:
      return body(Q45KBlock<true>()), true;
    case DType::q6_k:
      return body(Q6KBlock()), true;
    case DType::i8:
      return body(Int8Codes()), true;
    case DType::i4:
      return body(Int4Codes()), true;
    default:
      return false;
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
