// Loaders of transposed weights (cpu/transposed.h), one a format: vectors of the codes of one input as f32,
// and each output's factors, which a share of consecutive inputs has in common. Per-target code: included
// once for every instruction set by files that use hwy/foreach_target.h.
//
// weight = scale * code + offset. A loader has
//   kRowBytes   of the codes of one input
//   row(strip, k)  the address of those of input k
//   kFactorBytes, factors(strip, k)  of input k's share: bytes to prefetch, and their address
//   kFactors    whether scales are applied, and offsets
//   share(strip)              inputs with the same factors; kPlainShare where there are none
//   code<H>(row, o)           of outputs o, o + 1, ... of half H of the strip, o in [0, 64)
//   scale<H>(strip, k, o)     of input k's share
//   offset<H>(strip, k, o, scale)
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/transposed.h"
#include "cpu/weight_load-inl.h"
#include "hwy/highway.h"
#include "tensor/blocks32.h"
#include "tensor/scaled_codes.h"

#if defined(FULMAR_CPU_STRIP_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FULMAR_CPU_STRIP_ROWS_INL_H_
#undef FULMAR_CPU_STRIP_ROWS_INL_H_
#else
#define FULMAR_CPU_STRIP_ROWS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

using Outputs = hn::CappedTag<float, 16>;
using OutputsVec = hn::Vec<Outputs>;
constexpr size_t kHalfOutputs = kStripOutputs / 2;
constexpr size_t kPlainShare = 1024;

// One strip of a matrix.
struct Strip {
  const std::byte* at = nullptr;
  const float* scales = nullptr;  // beside the codes: [group][128]
  size_t group = 0;
};

enum class Factors : uint8_t { none, scales, offsets };

template <DType kDType>
HWY_INLINE const std::byte* row_of(const Strip& strip, size_t k) {
  constexpr StripFormat f = strip_format(kDType);
  return strip.at + k / f.block * f.block_bytes() + f.factor_bytes + k % f.block * f.row_bytes;
}

// Returns the address of the factors of input k's block.
template <DType kDType>
HWY_INLINE const std::byte* factors_of(const Strip& strip, size_t k) {
  constexpr StripFormat f = strip_format(kDType);
  return strip.at + k / f.block * f.block_bytes();
}

HWY_INLINE OutputsVec f16_factors(const std::byte* at) {
  const hn::Rebind<uint16_t, Outputs> d16;
  const auto stored = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(at));
  return hn::PromoteTo(Outputs(), hn::BitCast(hn::Rebind<hwy::float16_t, Outputs>(), stored));
}

HWY_INLINE hn::Vec<hn::Rebind<int32_t, Outputs>> whole_bytes(const std::byte* at) {
  const hn::Rebind<uint8_t, Outputs> d8;
  return hn::PromoteTo(hn::Rebind<int32_t, Outputs>(), hn::LoadU(d8, reinterpret_cast<const uint8_t*>(at)));
}

template <size_t kHalf>
HWY_INLINE hn::Vec<hn::Rebind<int32_t, Outputs>> nibbles(const std::byte* row, size_t o) {
  const auto both = whole_bytes(row + o);
  if constexpr (kHalf == 1) return hn::ShiftRight<4>(both);
  return hn::And(both, hn::Set(hn::Rebind<int32_t, Outputs>(), 15));
}

// ---- codes

template <DType kDType>
struct PlainRow {
  using Stored =
      std::conditional_t<kDType == DType::f32, float,
                         std::conditional_t<kDType == DType::f16, hwy::float16_t, hwy::bfloat16_t>>;

  template <size_t kHalf>
  static HWY_INLINE OutputsVec code(const std::byte* row, size_t o) {
    const hn::Rebind<Stored, Outputs> d;
    const auto stored = hn::LoadU(d, reinterpret_cast<const Stored*>(row) + kHalf * kHalfOutputs + o);
    if constexpr (kDType == DType::f32) {
      return stored;
    } else {
      return hn::PromoteTo(Outputs(), stored);
    }
  }
};

struct SignedByteRow {
  template <size_t kHalf>
  static HWY_INLINE OutputsVec code(const std::byte* row, size_t o) {
    const hn::Rebind<int8_t, Outputs> d8;
    const auto* const from = reinterpret_cast<const int8_t*>(row) + kHalf * kHalfOutputs + o;
    return hn::ConvertTo(Outputs(), hn::PromoteTo(hn::Rebind<int32_t, Outputs>(), hn::LoadU(d8, from)));
  }
};

struct F8Row {
  template <size_t kHalf>
  static HWY_INLINE OutputsVec code(const std::byte* row, size_t o) {
    const auto* const from = reinterpret_cast<const uint8_t*>(row) + kHalf * kHalfOutputs + o;
    return promote_f8(Outputs(), hn::LoadU(hn::Rebind<uint8_t, Outputs>(), from));
  }
};

struct NibbleRow {
  template <size_t kHalf>
  static HWY_INLINE OutputsVec code(const std::byte* row, size_t o) {
    return hn::ConvertTo(Outputs(), nibbles<kHalf>(row, o));
  }
};

// Nibbles and the bits above them, which follow all nibbles of the row.
template <int kBits>
struct HighBitsRow {
  template <size_t kHalf>
  static HWY_INLINE OutputsVec code(const std::byte* row, size_t o) {
    const hn::Rebind<int32_t, Outputs> d;
    constexpr size_t kBytes = kStripOutputs / 8 * kBits;
    const size_t output = kHalf * kHalfOutputs + o;
    const auto bytes = whole_bytes(row + kHalfOutputs + output % kBytes);
    const auto moved = hn::ShiftRightSame(bytes, static_cast<int>(output / kBytes) * kBits);
    const auto high = hn::ShiftLeft<4>(hn::And(moved, hn::Set(d, (1 << kBits) - 1)));
    return hn::ConvertTo(Outputs(), hn::Or(nibbles<kHalf>(row, o), high));
  }
};

// Nibbles 8 above the code, subtracted at once: a group may be too long for sums that cancel an offset out.
struct CentredNibbleRow {
  template <size_t kHalf>
  static HWY_INLINE OutputsVec code(const std::byte* row, size_t o) {
    const auto eight = hn::Set(hn::Rebind<int32_t, Outputs>(), 8);
    return hn::ConvertTo(Outputs(), hn::Sub(nibbles<kHalf>(row, o), eight));
  }
};

// Returns the levels of nibbles that are indices of a table.
HWY_INLINE OutputsVec level_of(const float* levels, hn::Vec<hn::Rebind<int32_t, Outputs>> index) {
  const Outputs d;
  constexpr size_t kOutputLanes = hn::MaxLanes(Outputs());
  if constexpr (kOutputLanes == 16) {
    return hn::TableLookupLanes(hn::LoadU(d, levels), hn::IndicesFromVec(d, index));
  } else if constexpr (kOutputLanes == 8) {
    const hn::Rebind<int32_t, Outputs> di;
    const auto place = hn::IndicesFromVec(d, hn::And(index, hn::Set(di, 7)));
    const auto is_low = hn::RebindMask(d, hn::Lt(index, hn::Set(di, 8)));
    return hn::IfThenElse(is_low, hn::TableLookupLanes(hn::LoadU(d, levels), place),
                          hn::TableLookupLanes(hn::LoadU(d, levels + 8), place));
  } else {
    return hn::GatherIndex(d, levels, index);
  }
}

struct Nf4Row {
  template <size_t kHalf>
  static HWY_INLINE OutputsVec code(const std::byte* row, size_t o) {
    return level_of(kNf4Levels, nibbles<kHalf>(row, o));
  }
};

struct Iq4Row {
  template <size_t kHalf>
  static HWY_INLINE OutputsVec code(const std::byte* row, size_t o) {
    static constexpr std::array<float, 16> kLevels = [] {
      std::array<float, 16> made{};
      std::copy(std::begin(kIq4Levels), std::end(kIq4Levels), made.begin());
      return made;
    }();
    return level_of(kLevels.data(), nibbles<kHalf>(row, o));
  }
};

// ---- factors

struct NoFactors {
  static constexpr Factors kFactors = Factors::none;
  static constexpr size_t kFactorBytes = 0;
  static HWY_INLINE const std::byte* factors(const Strip& strip, size_t) { return strip.at; }
  static HWY_INLINE size_t share(const Strip&) { return kPlainShare; }
};

struct FactorsBeside {
  static constexpr Factors kFactors = Factors::scales;
  static constexpr size_t kFactorBytes = 0;  // a group is large
  static HWY_INLINE const std::byte* factors(const Strip& strip, size_t) { return strip.at; }
  static HWY_INLINE size_t share(const Strip& strip) { return strip.group; }
  template <size_t kHalf>
  static HWY_INLINE OutputsVec scale(const Strip& strip, size_t k, size_t o) {
    return hn::LoadU(Outputs(), strip.scales + k / strip.group * kStripOutputs + kHalf * kHalfOutputs + o);
  }
};

// One or two f16 numbers before 32 inputs. kHas offsets: a minimum, or codes count from their middle.
template <DType kDType, Factors kHas>
struct FactorsOf32 {
  static constexpr Factors kFactors = kHas;
  static constexpr size_t kFactorBytes = strip_format(kDType).factor_bytes;
  static HWY_INLINE const std::byte* factors(const Strip& strip, size_t k) {
    return factors_of<kDType>(strip, k);
  }
  static HWY_INLINE size_t share(const Strip&) { return 32; }
  template <size_t kHalf>
  static HWY_INLINE OutputsVec scale(const Strip& strip, size_t k, size_t o) {
    return f16_factors(factors_of<kDType>(strip, k) + 2 * (kHalf * kHalfOutputs + o));
  }
  template <size_t kHalf>
  static HWY_INLINE OutputsVec offset(const Strip& strip, size_t k, size_t o, OutputsVec scale) {
    if constexpr (kDType == DType::q4_1 || kDType == DType::q5_1) {
      return f16_factors(factors_of<kDType>(strip, k) + 2 * (kStripOutputs + kHalf * kHalfOutputs + o));
    } else {
      return hn::Mul(scale, hn::Set(Outputs(), kDType == DType::q5_0 ? -16.0f : -8.0f));
    }
  }
};

// The factors of q4_k and q5_k.
template <DType kDType>
struct FactorsOfQ45K {
  static constexpr Factors kFactors = Factors::offsets;
  static constexpr size_t kFactorBytes = 2 * kStripOutputs;  // without those of 256 inputs: read rarely
  static HWY_INLINE const std::byte* factors(const Strip& strip, size_t k) {
    return factors_of<kDType>(strip, k) + kStripOutputs * (4 + 2 * (k % 256 / 32));
  }
  static HWY_INLINE size_t share(const Strip&) { return 32; }
  template <size_t kHalf>
  static HWY_INLINE OutputsVec scale(const Strip& strip, size_t k, size_t o) {
    return product<kHalf, 0>(strip, k, o);
  }
  template <size_t kHalf>
  static HWY_INLINE OutputsVec offset(const Strip& strip, size_t k, size_t o, OutputsVec) {
    return hn::Neg(product<kHalf, 1>(strip, k, o));
  }

 private:
  // Returns d * scale, or dmin * minimum.
  template <size_t kHalf, size_t kWhich>
  static HWY_INLINE OutputsVec product(const Strip& strip, size_t k, size_t o) {
    const std::byte* const at = factors_of<kDType>(strip, k);
    const size_t output = kHalf * kHalfOutputs + o;
    const std::byte* const small = factors(strip, k) + kWhich * kStripOutputs + output;
    return hn::Mul(hn::ConvertTo(Outputs(), whole_bytes(small)),
                   f16_factors(at + 2 * (kWhich * kStripOutputs + output)));
  }
};

struct FactorsOfQ6K {
  static constexpr Factors kFactors = Factors::offsets;
  static constexpr size_t kFactorBytes = kStripOutputs;
  static HWY_INLINE const std::byte* factors(const Strip& strip, size_t k) {
    return factors_of<DType::q6_k>(strip, k) + kStripOutputs * (2 + k % 256 / 16);
  }
  static HWY_INLINE size_t share(const Strip&) { return 16; }
  template <size_t kHalf>
  static HWY_INLINE OutputsVec scale(const Strip& strip, size_t k, size_t o) {
    const auto small = SignedByteRow::code<kHalf>(factors(strip, k), o);
    return hn::Mul(small, f16_factors(factors_of<DType::q6_k>(strip, k) + 2 * (kHalf * kHalfOutputs + o)));
  }
  template <size_t kHalf>
  static HWY_INLINE OutputsVec offset(const Strip&, size_t, size_t, OutputsVec scale) {
    return hn::Mul(scale, hn::Set(Outputs(), -32.0f));
  }
};

// ---- the table of loaders

template <DType kDType, class Row, class FactorSource>
struct StripLoader : Row, FactorSource {
  static constexpr size_t kRowBytes = strip_format(kDType).row_bytes;

  static HWY_INLINE const std::byte* row(const Strip& strip, size_t k) { return row_of<kDType>(strip, k); }
};

// Calls body(loader) for the loader of a format; returns false where it has none.
template <class Body>
HWY_INLINE bool with_strip_loader(DType dtype, const Body& body) {
  using enum Factors;
  switch (dtype) {
    case DType::f32:
      return body(StripLoader<DType::f32, PlainRow<DType::f32>, NoFactors>()), true;
    case DType::f16:
      return body(StripLoader<DType::f16, PlainRow<DType::f16>, NoFactors>()), true;
    case DType::bf16:
      return body(StripLoader<DType::bf16, PlainRow<DType::bf16>, NoFactors>()), true;
    case DType::i8:
      return body(StripLoader<DType::i8, SignedByteRow, FactorsBeside>()), true;
    case DType::f8_e4m3:
      return body(StripLoader<DType::f8_e4m3, F8Row, FactorsBeside>()), true;
    case DType::i4:
      return body(StripLoader<DType::i4, CentredNibbleRow, FactorsBeside>()), true;
    case DType::nf4:
      return body(StripLoader<DType::nf4, Nf4Row, FactorsBeside>()), true;
    case DType::q8_0:
      return body(StripLoader<DType::q8_0, SignedByteRow, FactorsOf32<DType::q8_0, scales>>()), true;
    case DType::iq4_nl:
      return body(StripLoader<DType::iq4_nl, Iq4Row, FactorsOf32<DType::iq4_nl, scales>>()), true;
    case DType::q4_0:
      return body(StripLoader<DType::q4_0, NibbleRow, FactorsOf32<DType::q4_0, offsets>>()), true;
    case DType::q4_1:
      return body(StripLoader<DType::q4_1, NibbleRow, FactorsOf32<DType::q4_1, offsets>>()), true;
    case DType::q5_0:
      return body(StripLoader<DType::q5_0, HighBitsRow<1>, FactorsOf32<DType::q5_0, offsets>>()), true;
    case DType::q5_1:
      return body(StripLoader<DType::q5_1, HighBitsRow<1>, FactorsOf32<DType::q5_1, offsets>>()), true;
    case DType::q4_k:
      return body(StripLoader<DType::q4_k, NibbleRow, FactorsOfQ45K<DType::q4_k>>()), true;
    case DType::q5_k:
      return body(StripLoader<DType::q5_k, HighBitsRow<1>, FactorsOfQ45K<DType::q5_k>>()), true;
    case DType::q6_k:
      return body(StripLoader<DType::q6_k, HighBitsRow<2>, FactorsOfQ6K>()), true;
    default:
      return false;
  }
}

// ---- decoding

// Decodes the inputs [k, end) of kCount outputs from o on in half a strip to f32; kStride between inputs.
template <class Loader, size_t kHalf, size_t kCount, size_t kStride>
HWY_INLINE void decode_rows(const Strip& strip, size_t o, size_t k, size_t end, float* to) {
  const Outputs d;
  const size_t share = Loader::share(strip);
  while (k < end) {
    const size_t share_end = std::min(end, (k / share + 1) * share);
    for (size_t v = 0; v < kCount; v += hn::Lanes(d)) {
      auto scale = hn::Zero(d), offset = hn::Zero(d);
      if constexpr (Loader::kFactors != Factors::none) {
        scale = Loader::template scale<kHalf>(strip, k, o + v);
      }
      if constexpr (Loader::kFactors == Factors::offsets) {
        offset = Loader::template offset<kHalf>(strip, k, o + v, scale);
      }
      for (size_t i = k; i < share_end; ++i) {
        const auto code = Loader::template code<kHalf>(Loader::row(strip, i), o + v);
        const auto number = Loader::kFactors == Factors::none ? code : hn::MulAdd(code, scale, offset);
        hn::StoreU(number, d, to + (i - k) * kStride + v);
      }
    }
    to += (share_end - k) * kStride;
    k = share_end;
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
