// Decodes parts of quantised weight rows to f32, for products with more rows than linear_coded.h takes.
// Per-target code: included once for every instruction set by files that use hwy/foreach_target.h.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "cpu/coded_blocks-inl.h"
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

// Weights that are decoded at once: whole blocks and groups of every format.
constexpr size_t kDecodedRun = 1024;

// Where the rows of a quantised matrix lie.
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

// Codes kAt, kAt + 1, ... of a block, one vector.
template <class Loader, size_t kAt>
HWY_INLINE void decode_vector(const std::byte* block, SumsVec scale, SumsVec offset, float* to) {
  const Sums d;
  const hn::Half<Codes> half;
  const CodesVec codes = Loader::template codes<kAt>(block);
  const SumsVec first = hn::ConvertTo(d, hn::PromoteTo(Whole(), hn::LowerHalf(half, codes)));
  const SumsVec second = hn::ConvertTo(d, hn::PromoteTo(Whole(), hn::UpperHalf(half, codes)));
  hn::StoreU(hn::MulAdd(first, scale, offset), d, to + kAt);
  hn::StoreU(hn::MulAdd(second, scale, offset), d, to + kAt + kSumLanes);
}

template <class Loader, size_t... kVector>
HWY_INLINE void decode_block(const std::byte* block, const float* scale, const float* offset, float* to,
                             std::index_sequence<kVector...>) {
  const Sums d;
  (decode_vector<Loader, kVector * kCodeLanes>(block,
                                               hn::Set(d, scale[kVector * kCodeLanes / Loader::kShare]),
                                               hn::Set(d, offset[kVector * kCodeLanes / Loader::kShare]), to),
   ...);
}

template <class Loader>
HWY_INLINE void store_factors(const Factors<Loader::kShare>& factors, float* scale, float* offset) {
  const Sums d;
  for (size_t v = 0; v < factors.kVectors; ++v, scale += kSumLanes, offset += kSumLanes) {
    hn::Store(factors.scale[v], d, scale);
    if constexpr (Loader::kOffset == Offset::stored) {
      hn::Store(factors.offset[v], d, offset);
    } else if constexpr (Loader::kOffset == Offset::zero) {
      hn::Store(hn::Mul(factors.scale[v], hn::Set(d, -Loader::kZero)), d, offset);
    } else {
      hn::Store(hn::Zero(d), d, offset);
    }
  }
}

// `count` weights, whole blocks.
template <class Loader>
void decode_steps(CodedStep step, size_t count, float* to) {
  constexpr size_t kShares = kStepWeights / Loader::kShare, kPerBlock = Loader::kBlock / Loader::kShare;
  HWY_ALIGN float scale[kShares], offset[kShares];
  for (size_t k = 0; k < count; k += kStepWeights, step.first += kStepWeights) {
    const size_t weights = std::min(kStepWeights, count - k);
    Factors<Loader::kShare> factors;
    Loader::factors(step, weights / Loader::kShare, factors);
    store_factors<Loader>(factors, scale, offset);
    for (size_t b = 0; b < weights / Loader::kBlock; ++b, step.codes += Loader::kBytes) {
      decode_block<Loader>(step.codes, scale + b * kPerBlock, offset + b * kPerBlock,
                           to + k + b * Loader::kBlock,
                           std::make_index_sequence<Loader::kBlock / kCodeLanes>());
    }
  }
}

// `count` weights, a multiple of 32; groups are too.
inline void decode_f8(const CodedStep& run, size_t count, float* to) {
  const Sums d;
  const hn::Rebind<uint8_t, Sums> stored;
  size_t k = 0;
  while (k < count) {
    const size_t at = run.first + k;
    const size_t end = std::min(count, k + run.group - at % run.group);
    const SumsVec scale = hn::Set(d, run.scales[at / run.group]);
    for (; k < end; k += kSumLanes) {
      const auto codes = hn::LoadU(stored, reinterpret_cast<const uint8_t*>(run.codes + k));
      hn::StoreU(hn::Mul(promote_f8(d, codes), scale), d, to + k);
    }
  }
}

// The weights of the run's beginning that vectors take: all of them but for the rest of rows of odd length.
inline size_t decode_vectors(DType dtype, const CodedStep& run, size_t count, float* to) {
  if (run.scales != nullptr && run.group % 32 != 0) return 0;
  const size_t taken = run.scales == nullptr ? count : count / 32 * 32;
  if (dtype == DType::f8_e4m3) return decode_f8(run, taken, to), taken;
  const bool known = with_loader(dtype, [&](auto loader) { decode_steps<decltype(loader)>(run, taken, to); });
  return known ? taken : 0;
}

#endif  // HWY_TARGET != HWY_SCALAR

// Weights [first, first + count) of a row; `first` is a multiple of 256, `count` at most kDecodedRun.
inline void decode_part(const CodedRows& rows, int64_t row, int64_t first, size_t count, float* to) {
  size_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  const CodedStep run{rows.codes_at(row, first), rows.scales_of(row), static_cast<size_t>(rows.group),
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
