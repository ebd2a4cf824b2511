// Loaders of interleaved quantised weights (cpu/interleaved.h), one a format: vectors of four codes of each
// output, and one f32 factor a lane, which consecutive weights share. NF4 and FP8 have none, because their
// codes do not stand for whole numbers. Per-target code: included once for every instruction set by files
// that use hwy/foreach_target.h.
//
// weight = scale * code + offset. A loader has
//   kShare      weights that share their factors: 16 or 32
//   kBlock      weights that are stored as one: 32 or 256
//   kBytes      of such a block of one output
//   kSigned     whether codes lie in [-128, 127]; otherwise in [0, 127]
//   kPairs      how many sums of two products of codes and digits 16 bits can add up
//   kOffset     the source of offsets
//   kZero       the code of the number 0, for Offset::zero
//   scale<S>(), offset<S>()  of share S of a block
//   codes<A>()  of weights A to A + 3 of a block
// Layouts: tensor/blocks32.h, tensor/blocks256.h, tensor/scaled_codes.h.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/byte_dot-inl.h"
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

enum class Offset : uint8_t {
  none,    // all are 0
  zero,    // -kZero * scale
  stored,  // the format has them
};

// A block of kLanes outputs of a tile from output `lane` on, or of two tiles.
struct TileBlock {
  const std::byte* at = nullptr;
  const float* scales = nullptr;  // beside the codes: of the group that the block lies in
  size_t lane = 0;
  // If vectors take two tiles: bytes from a block to the next tile's block, and from scales to its scales.
  size_t next_tile = 0, next_scales = 0;

  // Returns four bytes, or an f16 factor, of each output at `byte` bytes into the block of one output.
  HWY_INLINE BytesVec four(size_t byte) const { return load(Bytes(), at + 8 * byte + 4 * lane, next_tile); }
  HWY_INLINE SumsVec factor(size_t byte) const {
    const hn::Rebind<uint16_t, Sums> d16;
    const auto stored = load(d16, at + 8 * byte + 2 * lane, next_tile);
    return hn::PromoteTo(Sums(), hn::BitCast(hn::Rebind<hwy::float16_t, Sums>(), stored));
  }
  HWY_INLINE SumsVec scale_beside() const {
    return load(Sums(), reinterpret_cast<const std::byte*>(scales + lane), next_scales);
  }

 private:
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from, size_t next) {
    using T = hn::TFromD<D>;
    if constexpr (kLanes <= 8) {
      return hn::LoadU(d, reinterpret_cast<const T*>(from));
    } else {
      const hn::Half<D> half;
      return hn::Combine(d, hn::LoadU(half, reinterpret_cast<const T*>(from + next)),
                         hn::LoadU(half, reinterpret_cast<const T*>(from)));
    }
  }
};

// ---- fields of bytes

// Returns the bits of each byte from kFrom on, as many as kMask has, moved to kTo and masked by kMask.
template <int kFrom, int kTo, int kMask>
HWY_INLINE BytesVec bits(BytesVec v) {
  const auto mask = hn::Set(Bytes(), static_cast<uint8_t>(kMask));
  // A shift of wider lanes moves bits into neighbours, where the mask drops them.
  const auto whole = hn::BitCast(Whole(), v);
  if constexpr (kFrom > kTo) {
    return hn::And(hn::BitCast(Bytes(), hn::ShiftRight<kFrom - kTo>(whole)), mask);
  } else if constexpr (kFrom < kTo) {
    return hn::And(hn::BitCast(Bytes(), hn::ShiftLeft<kTo - kFrom>(whole)), mask);
  } else {
    return hn::And(v, mask);
  }
}

// Returns byte kByte of each lane as a signed number, or its bits from kFrom on masked by kMask.
template <size_t kByte>
HWY_INLINE WholeVec signed_byte(BytesVec v) {
  return hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * kByte>(hn::BitCast(Whole(), v)));
}
template <size_t kByte, int kFrom, int kMask>
HWY_INLINE WholeVec field_of_byte(BytesVec v) {
  const auto moved = hn::ShiftRight<8 * kByte + kFrom>(hn::BitCast(Whole(), v));
  return hn::And(moved, hn::Set(Whole(), kMask));
}

// Returns one of the four codes of each lane.
template <class Loader, size_t kByte>
HWY_INLINE WholeVec code_of(BytesVec codes) {
  if constexpr (Loader::kSigned) return signed_byte<kByte>(codes);
  return field_of_byte<kByte, 0, 255>(codes);
}

HWY_INLINE SumsVec scaled(WholeVec whole, SumsVec factor) {
  return hn::Mul(hn::ConvertTo(Sums(), whole), factor);
}

// Returns bytes kFirst and kSecond of each lane, twice each.
template <uint8_t kFirst, uint8_t kSecond>
HWY_INLINE BytesVec pick_bytes(BytesVec v) {
  constexpr uint8_t a = kFirst, b = kSecond;
  HWY_ALIGN static constexpr uint8_t kFrom[16] = {a,     a,     b,     b,     a + 4,  a + 4,  b + 4,  b + 4,
                                                  a + 8, a + 8, b + 8, b + 8, a + 12, a + 12, b + 12, b + 12};
  return hn::TableLookupBytes(v, hn::LoadDup128(Bytes(), kFrom));
}

// ---- blocks of 32 with their scale inside

// q4_0, q4_1, q5_0 and q5_1. kMinimum: the offset is stored; otherwise codes count from the middle.
template <bool kFifth, bool kMinimum>
struct EvenBlock {
  static constexpr size_t kShare = 32, kBlock = 32, kFifthAt = kMinimum ? 4 : 2;
  static constexpr size_t kCodesAt = kFifthAt + (kFifth ? 4 : 0), kBytes = kCodesAt + 16;
  static constexpr bool kSigned = false;
  static constexpr size_t kPairs = kFifth ? 4 : 8;
  static constexpr Offset kOffset = kMinimum ? Offset::stored : Offset::zero;
  static constexpr float kZero = kFifth ? 16 : 8;

  template <size_t>
  static HWY_INLINE SumsVec scale(const TileBlock& block) {
    return block.factor(0);
  }
  template <size_t>
  static HWY_INLINE SumsVec offset(const TileBlock& block) {
    return block.factor(2);
  }
  template <size_t kAt>
  static HWY_INLINE BytesVec codes(const TileBlock& block) {
    const BytesVec low = bits<kAt / 16 * 4, 0, 15>(block.four(kCodesAt + kAt % 16));
    if constexpr (!kFifth) {
      return low;
    } else {
      constexpr uint8_t kFirst = 1 << kAt % 8;
      HWY_ALIGN static constexpr uint8_t kBit[16] = {
          kFirst, kFirst * 2, kFirst * 4, kFirst * 8, kFirst, kFirst * 2, kFirst * 4, kFirst * 8,
          kFirst, kFirst * 2, kFirst * 4, kFirst * 8, kFirst, kFirst * 2, kFirst * 4, kFirst * 8};
      const auto eight = pick_bytes<kAt / 8, kAt / 8>(block.four(kFifthAt));
      const auto set = hn::TestBit(eight, hn::LoadDup128(Bytes(), kBit));
      return hn::Or(low, hn::IfThenElseZero(set, hn::Set(Bytes(), uint8_t{16})));
    }
  }
};

struct Q8Block {
  static constexpr size_t kShare = 32, kBlock = 32, kBytes = 34, kPairs = 1;
  static constexpr bool kSigned = true;
  static constexpr Offset kOffset = Offset::none;

  template <size_t>
  static HWY_INLINE SumsVec scale(const TileBlock& block) {
    return block.factor(0);
  }
  template <size_t kAt>
  static HWY_INLINE BytesVec codes(const TileBlock& block) {
    return block.four(2 + kAt);
  }
};

struct Iq4Block {
  static constexpr size_t kShare = 32, kBlock = 32, kBytes = 18, kPairs = 1;
  static constexpr bool kSigned = true;
  static constexpr Offset kOffset = Offset::none;

  template <size_t>
  static HWY_INLINE SumsVec scale(const TileBlock& block) {
    return block.factor(0);
  }
  template <size_t kAt>
  static HWY_INLINE BytesVec codes(const TileBlock& block) {
    const auto levels = hn::LoadDup128(SignedBytes(), kIq4Levels);
    const BytesVec index = bits<kAt / 16 * 4, 0, 15>(block.four(2 + kAt % 16));
    return hn::BitCast(Bytes(), hn::TableLookupBytes(levels, hn::BitCast(SignedBytes(), index)));
  }
};

// ---- super-blocks of 256

template <bool kFifth>
struct Q45KBlock {
  static constexpr size_t kShare = 32, kBlock = 256, kCodesAt = kFifth ? 48 : 16, kBytes = kCodesAt + 128;
  static constexpr bool kSigned = false;
  static constexpr size_t kPairs = kFifth ? 4 : 8;
  static constexpr Offset kOffset = Offset::stored;

  template <size_t kShareIndex>
  static HWY_INLINE SumsVec scale(const TileBlock& block) {
    return scaled(six_bits<kShareIndex, 0>(block), block.factor(0));
  }
  template <size_t kShareIndex>
  static HWY_INLINE SumsVec offset(const TileBlock& block) {
    return scaled(six_bits<kShareIndex, 4>(block), hn::Neg(block.factor(2)));
  }
  template <size_t kAt>
  static HWY_INLINE BytesVec codes(const TileBlock& block) {
    constexpr size_t kPart = kAt / 64, kHigh = kAt % 64 / 32, kByte = kAt % 32;
    const BytesVec low = bits<kHigh * 4, 0, 15>(block.four(kCodesAt + 32 * kPart + kByte));
    if constexpr (!kFifth) {
      return low;
    } else {
      return hn::Or(low, bits<static_cast<int>(2 * kPart + kHigh), 4, 16>(block.four(16 + kByte)));
    }
  }

 private:
  // Returns scales (kFrom 0) or minima (4): the first four lie in bytes of their own, the others in the
  // nibbles after those and in the first ones' upper two bits.
  template <size_t kShareIndex, size_t kFrom>
  static HWY_INLINE WholeVec six_bits(const TileBlock& block) {
    constexpr size_t kByte = kShareIndex % 4;
    const BytesVec first = block.four(4 + kFrom);
    if constexpr (kShareIndex < 4) return field_of_byte<kByte, 0, 63>(first);
    const WholeVec low = field_of_byte < kByte, kFrom == 0 ? 0 : 4, 15 > (block.four(12));
    return hn::Or(low, hn::ShiftLeft<4>(field_of_byte<kByte, 6, 3>(first)));
  }
};

// The location of a weight of q2_k, q3_k and q6_k: half, field within the half's bytes, byte.
template <size_t kAt>
struct FieldOf {
  static constexpr size_t kHalf = kAt / 128, kByte = kAt % 32;
  static constexpr int kField = static_cast<int>(kAt % 128 / 32);
};

struct Q6KBlock {
  static constexpr size_t kShare = 16, kBlock = 256, kBytes = 210, kPairs = 2;
  static constexpr bool kSigned = false;
  static constexpr Offset kOffset = Offset::zero;
  static constexpr float kZero = 32;

  template <size_t kShareIndex>
  static HWY_INLINE SumsVec scale(const TileBlock& block) {
    const BytesVec four = block.four(192 + kShareIndex / 4 * 4);
    return scaled(signed_byte<kShareIndex % 4>(four), block.factor(208));
  }
  template <size_t kAt>
  static HWY_INLINE BytesVec codes(const TileBlock& block) {
    using Field = FieldOf<kAt>;
    constexpr int j = Field::kField;
    const BytesVec low = block.four(64 * Field::kHalf + 32 * (j % 2) + Field::kByte);
    const BytesVec high = block.four(128 + 32 * Field::kHalf + Field::kByte);
    return hn::Or(bits<j / 2 * 4, 0, 15>(low), bits<2 * j, 4, 48>(high));
  }
};

struct Q3KBlock {
  static constexpr size_t kShare = 16, kBlock = 256, kBytes = 110, kPairs = 4;
  static constexpr bool kSigned = false;
  static constexpr Offset kOffset = Offset::zero;
  static constexpr float kZero = 4;

  // Returns the scale, six bits less 32: a nibble of the first eight bytes, two bits of the next four.
  template <size_t kShareIndex>
  static HWY_INLINE SumsVec scale(const TileBlock& block) {
    constexpr size_t kByte = kShareIndex % 4;
    const BytesVec nibbles = block.four(96 + kShareIndex % 8 / 4 * 4);
    const WholeVec low = field_of_byte<kByte, kShareIndex / 8 * 4, 15>(nibbles);
    const WholeVec high = field_of_byte<kByte, kShareIndex / 4 * 2, 3>(block.four(104));
    const WholeVec both = hn::Or(low, hn::ShiftLeft<4>(high));
    return scaled(hn::Sub(both, hn::Set(Whole(), 32)), block.factor(108));
  }
  template <size_t kAt>
  static HWY_INLINE BytesVec codes(const TileBlock& block) {
    using Field = FieldOf<kAt>;
    constexpr int j = Field::kField;
    const BytesVec low = block.four(32 + 32 * Field::kHalf + Field::kByte);
    const BytesVec high = block.four(Field::kByte);
    return hn::Or(bits<2 * j, 0, 3>(low), bits<static_cast<int>(4 * Field::kHalf) + j, 2, 4>(high));
  }
};

struct Q2KBlock {
  static constexpr size_t kShare = 16, kBlock = 256, kBytes = 84, kPairs = 4;
  static constexpr bool kSigned = false;
  static constexpr Offset kOffset = Offset::stored;

  template <size_t kShareIndex>
  static HWY_INLINE SumsVec scale(const TileBlock& block) {
    return scaled(field_of_byte<kShareIndex % 4, 0, 15>(block.four(kShareIndex / 4 * 4)), block.factor(80));
  }
  template <size_t kShareIndex>
  static HWY_INLINE SumsVec offset(const TileBlock& block) {
    return scaled(field_of_byte<kShareIndex % 4, 4, 15>(block.four(kShareIndex / 4 * 4)),
                  hn::Neg(block.factor(82)));
  }
  template <size_t kAt>
  static HWY_INLINE BytesVec codes(const TileBlock& block) {
    using Field = FieldOf<kAt>;
    return bits<2 * Field::kField, 0, 3>(block.four(16 + 32 * Field::kHalf + Field::kByte));
  }
};

// ---- codes with scales beside them

struct Int8Codes {
  static constexpr size_t kShare = 32, kBlock = 32, kBytes = 32, kPairs = 1;
  static constexpr bool kSigned = true;
  static constexpr Offset kOffset = Offset::none;

  template <size_t>
  static HWY_INLINE SumsVec scale(const TileBlock& block) {
    return block.scale_beside();
  }
  template <size_t kAt>
  static HWY_INLINE BytesVec codes(const TileBlock& block) {
    return block.four(kAt);
  }
};

struct Int4Codes {
  static constexpr size_t kShare = 32, kBlock = 32, kBytes = 16, kPairs = 8;
  static constexpr bool kSigned = false;  // 8 more than stored
  static constexpr Offset kOffset = Offset::zero;
  static constexpr float kZero = 8;

  template <size_t>
  static HWY_INLINE SumsVec scale(const TileBlock& block) {
    return block.scale_beside();
  }
  template <size_t kAt>
  static HWY_INLINE BytesVec codes(const TileBlock& block) {
    constexpr uint8_t kByte = kAt % 8 / 2;
    const BytesVec pairs = pick_bytes<kByte, kByte + 1>(block.four(kAt / 8 * 4));
    const auto low_first = hn::BitCast(Bytes(), hn::Set(Pairs(), int16_t{0x00ff}));
    const BytesVec nibbles =
        hn::IfThenElse(hn::MaskFromVec(low_first), bits<0, 0, 15>(pairs), bits<4, 0, 15>(pairs));
    return hn::Xor(nibbles, hn::Set(Bytes(), uint8_t{8}));
  }
};

// Returns the offset that is added to scale * code, whatever the format; 0 where it has none.
template <class Loader, size_t kShareIndex>
HWY_INLINE SumsVec offset_of(const TileBlock& block, SumsVec scale) {
  if constexpr (Loader::kOffset == Offset::stored) return Loader::template offset<kShareIndex>(block);
  if constexpr (Loader::kOffset == Offset::zero) return hn::Mul(scale, hn::Set(Sums(), -Loader::kZero));
  return hn::Zero(Sums());
}

// ---- the table of loaders

// Calls body(loader) for the loader of a format; returns false where it has none.
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
