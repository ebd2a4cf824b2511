// Decodes parts of quantised weight rows to f32, of matrices that are not interleaved (interleaved.h).
// Per-target code: included once for every instruction set by files that use hwy/foreach_target.h.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

#include "cpu/weight_load-inl.h"
#include "hwy/highway.h"
#include "tensor/quantise.h"
#include "tensor/scaled_codes.h"

#if defined(FULMAR_CPU_BLOCK_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FULMAR_CPU_BLOCK_DECODE_INL_H_
#undef FULMAR_CPU_BLOCK_DECODE_INL_H_
#else
#define FULMAR_CPU_BLOCK_DECODE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

// Weights decoded at a time: whole blocks and groups of every format.
constexpr size_t kDecodedRun = 1024;

// The rows of a quantised matrix in memory.
struct CodedRows {
  DType dtype = DType::q8_0;
  const std::byte* codes = nullptr;
  const float* scales = nullptr;  // as in Weight
  int64_t group = 0;
  int64_t depth = 0;  // weights of a row

  const std::byte* codes_at(int64_t row, int64_t first) const {
    return codes + static_cast<size_t>(row) * bytes_for(dtype, depth) + bytes_for(dtype, first);
  }
  const float* scales_of(int64_t row) const {
    return scales == nullptr ? nullptr : scales + row * (depth / group);
  }
};

#if HWY_TARGET != HWY_SCALAR

// Weights of a row from `first` on.
struct CodedRun {
  const std::byte* codes = nullptr;
  const float* scales = nullptr;  // of the row's first weight
  size_t group = 0;
  size_t first = 0;
};

// NF4's levels as four tables, one for each byte of an f32.
struct Nf4Bytes {
  alignas(16) uint8_t at[4][16];
};
constexpr Nf4Bytes make_nf4_bytes() {
  Nf4Bytes made{};
  for (size_t i = 0; i < 16; ++i) {
    const auto bits = std::bit_cast<uint32_t>(kNf4Levels[i]);
    for (size_t byte = 0; byte < 4; ++byte) made.at[byte][i] = static_cast<uint8_t>(bits >> 8 * byte);
  }
  return made;
}

// Decodes 16 weights of NF4 without their scale, into four vectors.
HWY_INLINE void nf4_levels(const std::byte* from, hn::Vec<hn::Full128<float>> (&to)[4]) {
  static constexpr Nf4Bytes kBytes = make_nf4_bytes();
  const hn::Full128<uint8_t> d8;
  const hn::Full128<uint16_t> d16;
  const hn::Full128<float> d;
  const auto both = hn::LoadU(hn::Half<decltype(d8)>(), reinterpret_cast<const uint8_t*>(from));
  const auto all = hn::ZeroExtendVector(d8, both);
  const auto index = hn::InterleaveLower(d8, hn::ShiftRight<4>(all), hn::And(all, hn::Set(d8, uint8_t{15})));
  const auto byte = [&](size_t n) { return hn::TableLookupBytes(hn::Load(d8, kBytes.at[n]), index); };
  const auto b0 = byte(0), b1 = byte(1), b2 = byte(2), b3 = byte(3);
  const auto low0 = hn::BitCast(d16, hn::InterleaveLower(d8, b0, b1)),
             low1 = hn::BitCast(d16, hn::InterleaveUpper(d8, b0, b1)),
             high0 = hn::BitCast(d16, hn::InterleaveLower(d8, b2, b3)),
             high1 = hn::BitCast(d16, hn::InterleaveUpper(d8, b2, b3));
  to[0] = hn::BitCast(d, hn::InterleaveLower(d16, low0, high0));
  to[1] = hn::BitCast(d, hn::InterleaveUpper(d16, low0, high0));
  to[2] = hn::BitCast(d, hn::InterleaveLower(d16, low1, high1));
  to[3] = hn::BitCast(d, hn::InterleaveUpper(d16, low1, high1));
}

// Calls body(k, end, scale) for each part of a run that shares a scale.
template <class Body>
HWY_INLINE void for_groups(const CodedRun& run, size_t count, const Body& body) {
  for (size_t k = 0; k < count;) {
    const size_t at = run.first + k;
    const size_t end = std::min(count, k + run.group - at % run.group);
    body(k, end, run.scales[at / run.group]);
    k = end;
  }
}

// Decodes `count` weights, a multiple of 32; groups are too.
inline void decode_nf4(const CodedRun& run, size_t count, float* to) {
  const hn::Full128<float> d;
  for_groups(run, count, [&](size_t k, size_t end, float scale) {
    for (; k < end; k += 16) {
      hn::Vec<hn::Full128<float>> level[4];
      nf4_levels(run.codes + k / 2, level);
      for (size_t i = 0; i < 4; ++i) hn::StoreU(hn::Mul(level[i], hn::Set(d, scale)), d, to + k + 4 * i);
    }
  });
}

inline void decode_f8(const CodedRun& run, size_t count, float* to) {
  const hn::CappedTag<float, 8> d;
  const hn::Rebind<uint8_t, decltype(d)> stored;
  for_groups(run, count, [&](size_t k, size_t end, float scale) {
    for (; k < end; k += hn::Lanes(d)) {
      const auto codes = hn::LoadU(stored, reinterpret_cast<const uint8_t*>(run.codes + k));
      hn::StoreU(hn::Mul(promote_f8(d, codes), hn::Set(d, scale)), d, to + k);
    }
  });
}

// Decodes weights by vectors; returns how many: all, but for the end of a row of odd length.
inline size_t decode_vectors(DType dtype, const CodedRun& run, size_t count, float* to) {
  if (run.scales != nullptr && run.group % 32 != 0) return 0;
  const size_t taken = run.scales == nullptr ? count : count / 32 * 32;
  if (dtype == DType::f8_e4m3) return decode_f8(run, taken, to), taken;
  if (dtype == DType::nf4) return decode_nf4(run, taken, to), taken;
  return 0;
}

#endif  // HWY_TARGET != HWY_SCALAR

// Decodes the weights [first, first + count) of a row; `first`: of 256, `count` at most kDecodedRun.
inline void decode_part(const CodedRows& rows, int64_t row, int64_t first, size_t count, float* to) {
  size_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  const CodedRun run{rows.codes_at(row, first), rows.scales_of(row), static_cast<size_t>(rows.group),
                     static_cast<size_t>(first)};
  done = decode_vectors(rows.dtype, run, count, to);
#endif
  if (done == count) return;
  const int64_t at = first + static_cast<int64_t>(done);
  const float* scales = rows.scales_of(row);
  if (scales != nullptr) scales += at / rows.group;
  decode_row(rows.dtype, rows.codes_at(row, at), scales, rows.group, {to + done, count - done});
}

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
