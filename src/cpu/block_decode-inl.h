// Decodes parts of quantised weight rows to f32: q8_0, q4_0 and q4_k with vectors, the other formats by their
// reference decoder. Per-target code: included once for every instruction set by files that use
// hwy/foreach_target.h.
#include <cstddef>
#include <cstring>
#include <span>

#include "cpu/weight_load-inl.h"
#include "hwy/highway.h"
#include "tensor/quantise.h"

#if defined(FULMAR_CPU_BLOCK_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FULMAR_CPU_BLOCK_DECODE_INL_H_
#undef FULMAR_CPU_BLOCK_DECODE_INL_H_
#else
#define FULMAR_CPU_BLOCK_DECODE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

// Weights that are decoded at once: whole blocks and groups of every format, and their scales fit on the
// stack.
constexpr size_t kDecodedRun = 1024;

// The f16 factors of `count` blocks `bytes` apart, as f32; `to` has room for whole vectors.
HWY_INLINE void load_factors(const std::byte* from, size_t bytes, size_t count, float* to) {
  constexpr size_t kMost = kDecodedRun / 32 + hn::MaxLanes(F32());
  HWY_ALIGN hwy::float16_t raw[kMost] = {};
  for (size_t i = 0; i < count; ++i) std::memcpy(static_cast<void*>(raw + i), from + i * bytes, 2);
  for (size_t i = 0; i < count; i += hn::Lanes(F32())) hn::StoreU(load_weights(raw + i), F32(), to + i);
}

// As many bytes as one f32 vector has lanes, as whole numbers.
HWY_INLINE hn::Vec<hn::RebindToSigned<F32>> load_codes(const std::byte* from, int8_t) {
  const hn::Rebind<int8_t, F32> d;
  return hn::PromoteTo(hn::RebindToSigned<F32>(), hn::LoadU(d, reinterpret_cast<const int8_t*>(from)));
}
HWY_INLINE hn::Vec<hn::RebindToSigned<F32>> load_codes(const std::byte* from, uint8_t) {
  const hn::Rebind<uint8_t, F32> d;
  return hn::PromoteTo(hn::RebindToSigned<F32>(), hn::LoadU(d, reinterpret_cast<const uint8_t*>(from)));
}

// `count` weights, whole blocks and at most kDecodedRun.
HWY_INLINE void decode_q8_0(const std::byte* from, size_t count, float* to) {
  constexpr size_t kBlock = 32, kBytes = 34;
  const F32 d;
  float factors[kDecodedRun / kBlock + hn::MaxLanes(F32())];
  load_factors(from, kBytes, count / kBlock, factors);
  for (size_t b = 0; b < count / kBlock; ++b, from += kBytes, to += kBlock) {
    const F32Vec scale = hn::Set(d, factors[b]);
    for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
      hn::StoreU(hn::Mul(hn::ConvertTo(d, load_codes(from + 2 + i, int8_t{})), scale), d, to + i);
    }
  }
}

HWY_INLINE void decode_q4_0(const std::byte* from, size_t count, float* to) {
  constexpr size_t kBlock = 32, kBytes = 18, kHalf = 16;
  const F32 d;
  const hn::RebindToSigned<F32> whole;
  float factors[kDecodedRun / kBlock + hn::MaxLanes(F32())];
  load_factors(from, kBytes, count / kBlock, factors);
  const auto low = hn::Set(whole, 15), middle = hn::Set(whole, 8);
  for (size_t b = 0; b < count / kBlock; ++b, from += kBytes, to += kBlock) {
    const F32Vec scale = hn::Set(d, factors[b]);
    for (size_t i = 0; i < kHalf; i += hn::Lanes(d)) {
      const auto both = load_codes(from + 2 + i, uint8_t{});
      const auto first = hn::Sub(hn::And(both, low), middle),
                 second = hn::Sub(hn::ShiftRight<4>(both), middle);
      hn::StoreU(hn::Mul(hn::ConvertTo(d, first), scale), d, to + i);
      hn::StoreU(hn::Mul(hn::ConvertTo(d, second), scale), d, to + kHalf + i);
    }
  }
}

HWY_INLINE void decode_q4_k(const std::byte* from, size_t count, float* to) {
  constexpr size_t kBlock = 256, kBytes = 144, kSub = 32, kCodes = 16;
  const F32 d;
  const hn::RebindToSigned<F32> whole;
  const auto low = hn::Set(whole, 15);
  float scales[kDecodedRun / kBlock + hn::MaxLanes(F32())],
      minima[kDecodedRun / kBlock + hn::MaxLanes(F32())];
  load_factors(from, kBytes, count / kBlock, scales);
  load_factors(from + 2, kBytes, count / kBlock, minima);
  for (size_t b = 0; b < count / kBlock; ++b, from += kBytes) {
    uint8_t packed[12];  // eight 6-bit scales and minima, see tensor/blocks256.cpp
    std::memcpy(packed, from + 4, sizeof(packed));
    for (size_t i = 0; i < 8; i += 2, to += 2 * kSub) {
      float step[2], least[2];
      for (size_t n = 0; n < 2; ++n) {
        const size_t s = i + n;
        const int scale = s < 4 ? packed[s] & 63 : (packed[s + 4] & 15) | packed[s - 4] >> 6 << 4;
        const int minimum = s < 4 ? packed[s + 4] & 63 : packed[s + 4] >> 4 | packed[s] >> 6 << 4;
        step[n] = scales[b] * static_cast<float>(scale);
        least[n] = minima[b] * static_cast<float>(minimum);
      }
      for (size_t l = 0; l < kSub; l += hn::Lanes(d)) {
        const auto both = load_codes(from + kCodes + i / 2 * kSub + l, uint8_t{});
        const F32Vec first = hn::ConvertTo(d, hn::And(both, low));
        const F32Vec second = hn::ConvertTo(d, hn::ShiftRight<4>(both));
        hn::StoreU(hn::MulSub(first, hn::Set(d, step[0]), hn::Set(d, least[0])), d, to + l);
        hn::StoreU(hn::MulSub(second, hn::Set(d, step[1]), hn::Set(d, least[1])), d, to + kSub + l);
      }
    }
  }
}

// Where the rows of a quantised matrix lie.
struct CodedRows {
  DType dtype = DType::q8_0;
  const std::byte* codes = nullptr;
  const float* scales = nullptr;  // as in Weight
  int64_t group = 0;
  int64_t depth = 0;  // weights of a row
};

// Weights [first, first + count) of a row; `first` is a multiple of 256, `count` at most kDecodedRun.
inline void decode_part(const CodedRows& rows, int64_t row, int64_t first, size_t count, float* to) {
  const std::byte* const from = rows.codes + static_cast<size_t>(row) * bytes_for(rows.dtype, rows.depth) +
                                bytes_for(rows.dtype, first);
  switch (rows.dtype) {
    case DType::q8_0:
      return decode_q8_0(from, count, to);
    case DType::q4_0:
      return decode_q4_0(from, count, to);
    case DType::q4_k:
      return decode_q4_k(from, count, to);
    default: {
      const float* scales = rows.scales;
      if (scales != nullptr) scales += (row * rows.depth + first) / rows.group;
      decode_row(rows.dtype, from, scales, rows.group, {to, count});
    }
  }
}

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
