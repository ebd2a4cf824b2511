// The sums of half a strip stay in registers for the inputs of a share; between shares
// they are in the output itself.
#include "cpu/linear_sparse.h"

#include <algorithm>
#include <bit>

#include "cpu/simd_targets.h"
#include "cpu/transposed.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_sparse.cpp"
#include "hwy/foreach_target.h"
#include "cpu/strip_rows-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

struct Nonzeros {
  const uint32_t* place = nullptr;  // followed by kNonzerosPadding of the last one
  const float* number = nullptr;
  size_t count = 0;

  Nonzeros(const float* row, size_t depth)
      : place(reinterpret_cast<const uint32_t*>(row) + 16),
        number(row + 16 + depth + kNonzerosPadding),
        count(reinterpret_cast<const uint32_t*>(row)[0]) {}
};

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kAhead = 24;  // rows of codes in flight; covers the latency of memory
static_assert(kAhead < kNonzerosPadding);
constexpr size_t kLineBytes = 64;
constexpr size_t kInputsAtOnce = kPlainShare;  // inputs whose codes stay in cache; whole shares
constexpr size_t kRowsAtOnce = 16;
constexpr size_t kInputsDecoded = 256;  // at a time: 128 KB as f32
constexpr size_t kRowsDecodedFor = 1024;
constexpr size_t kVectors = kHalfOutputs / hn::MaxLanes(Outputs());

// Writes a row's nonzeros. Most vectors are all zeros. In others it takes bit by bit: compressing vectors is
// slower where a library does it by table.
int64_t FindNonzeros(const float* in, int64_t depth, float* to) {
  const hn::CappedTag<float, 8> d;
  auto* const place = reinterpret_cast<uint32_t*>(to) + 16;
  float* const number = to + 16 + depth + kNonzerosPadding;
  size_t count = 0, k = 0;
  const auto size = static_cast<size_t>(depth), lanes = hn::Lanes(d);
  const auto keep = [&](size_t at) {
    place[count] = static_cast<uint32_t>(at);
    number[count++] = in[at];
  };
  for (; k + lanes <= size; k += lanes) {
    const auto is_one = hn::Not(hn::Eq(hn::LoadU(d, in + k), hn::Zero(d)));
    uint8_t stored[8] = {};
    hn::StoreMaskBits(d, is_one, stored);
    for (unsigned bits = stored[0]; bits != 0; bits &= bits - 1) {
      keep(k + static_cast<size_t>(std::countr_zero(bits)));
    }
  }
  for (; k < size; ++k) {
    if (!(in[k] == 0)) keep(k);
  }
  std::fill_n(place + count, kNonzerosPadding, count == 0 ? 0 : place[count - 1]);
  reinterpret_cast<uint32_t*>(to)[0] = static_cast<uint32_t>(count);
  return static_cast<int64_t>(count);
}

// Prefetches into the second-level cache, which can have more misses in flight.
HWY_INLINE void prefetch(const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(from + at, 0, 2);
}

// Prefetches what input k reads: its row, and the factors of its share.
template <class Loader>
HWY_INLINE void prefetch_input(const Strip& strip, size_t k) {
  prefetch(Loader::row(strip, k), Loader::kRowBytes);
  prefetch(Loader::factors(strip, k), Loader::kFactorBytes);
}

// Adds the inputs of `in` from i on that are below `end` and in one share to half a strip of outputs. Returns
// the first input of the next share.
template <class Loader, size_t kHalf>
HWY_INLINE size_t add_share(const Strip& strip, const Nonzeros& in, size_t i, size_t end, float* out) {
  const Outputs d;
  OutputsVec sum[kVectors];
  for (OutputsVec& vector : sum) vector = hn::Zero(d);
  const size_t first = in.place[i], share = Loader::share(strip);
  const size_t share_end = std::min(end, (first / share + 1) * share);
  float inputs = 0;
  for (; i < in.count && in.place[i] < share_end; ++i) {
    if constexpr (kHalf == 0) prefetch_input<Loader>(strip, in.place[i + kAhead]);
    const std::byte* const row = Loader::row(strip, in.place[i]);
    const OutputsVec x = hn::Set(d, in.number[i]);
    for (size_t v = 0; v < kVectors; ++v) {
      sum[v] = hn::MulAdd(x, Loader::template code<kHalf>(row, v * hn::Lanes(d)), sum[v]);
    }
    inputs += in.number[i];
  }
  for (size_t v = 0; v < kVectors; ++v) {
    const size_t o = v * hn::Lanes(d);
    float* const to = out + kHalf * kHalfOutputs + o;
    OutputsVec total = hn::LoadU(d, to);
    if constexpr (Loader::kFactors == Factors::none) {
      total = hn::Add(total, sum[v]);
    } else {
      const OutputsVec scale = Loader::template scale<kHalf>(strip, first, o);
      total = hn::MulAdd(sum[v], scale, total);
      if constexpr (Loader::kFactors == Factors::offsets) {
        const OutputsVec offset = Loader::template offset<kHalf>(strip, first, o, scale);
        total = hn::MulAdd(hn::Set(d, inputs), offset, total);
      }
    }
    hn::StoreU(total, d, to);
  }
  return i;
}

// Adds the inputs from `i` on that are below `end` to 128 outputs; returns the first that is not.
template <class Loader>
size_t add_inputs(const Strip& strip, const Nonzeros& in, size_t i, size_t end, float* out) {
  size_t reached = i;
  while (reached < in.count && in.place[reached] < end) {
    reached = add_share<Loader, 0>(strip, in, reached, end, out);
  }
  while (i < reached) i = add_share<Loader, 1>(strip, in, i, end, out);
  return reached;
}

// Computes rows [row, last), at most kRowsAtOnce, and one strip whose outputs all exist, from `first` on.
template <class Loader>
void multiply_strip(const SparseProduct& p, const Strip& strip, int64_t first, int64_t row, int64_t last) {
  const auto depth = static_cast<size_t>(p.depth);
  size_t reached[kRowsAtOnce] = {};
  for (int64_t r = row; r < last; ++r) std::fill_n(p.out + r * p.out_stride + first, kStripOutputs, 0.0f);
  for (size_t end = kInputsAtOnce; end < depth + kInputsAtOnce; end += kInputsAtOnce) {
    for (int64_t r = row; r < last; ++r) {
      const Nonzeros in(p.in + r * nonzeros_floats(p.depth), depth);
      size_t& i = reached[r - row];
      i = add_inputs<Loader>(strip, in, i, end, p.out + r * p.out_stride + first);
    }
  }
}

// Adds the inputs from `i` on that are below `end` to half a strip of outputs; weights are decoded from input
// `first` on. Returns the first input that is not below.
template <size_t kHalf>
HWY_INLINE size_t add_decoded(const float* decoded, size_t first, const Nonzeros& in, size_t i, size_t end,
                              float* out) {
  const Outputs d;
  OutputsVec sum[kVectors];
  for (size_t v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, out + kHalf * kHalfOutputs + v * hn::Lanes(d));
  for (; i < in.count && in.place[i] < end; ++i) {
    const float* const row = decoded + (in.place[i] - first) * kStripOutputs + kHalf * kHalfOutputs;
    const OutputsVec x = hn::Set(d, in.number[i]);
    for (size_t v = 0; v < kVectors; ++v) sum[v] = hn::MulAdd(x, hn::Load(d, row + v * hn::Lanes(d)), sum[v]);
  }
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, out + kHalf * kHalfOutputs + v * hn::Lanes(d));
  return i;
}

// Computes rows [row, last), at most kRowsDecodedFor, and one strip whose outputs all exist, from `first` on.
template <class Loader>
void multiply_decoded(const SparseProduct& p, const Strip& strip, int64_t first, int64_t row, int64_t last) {
  HWY_ALIGN float decoded[kInputsDecoded * kStripOutputs];
  const auto depth = static_cast<size_t>(p.depth);
  uint32_t reached[kRowsDecodedFor] = {};
  for (int64_t r = row; r < last; ++r) std::fill_n(p.out + r * p.out_stride + first, kStripOutputs, 0.0f);
  for (size_t k = 0; k < depth; k += kInputsDecoded) {
    const size_t end = std::min(depth, k + kInputsDecoded);
    decode_rows<Loader, 0, kHalfOutputs, kStripOutputs>(strip, 0, k, end, decoded);
    decode_rows<Loader, 1, kHalfOutputs, kStripOutputs>(strip, 0, k, end, decoded + kHalfOutputs);
    for (int64_t r = row; r < last; ++r) {
      const Nonzeros in(p.in + r * nonzeros_floats(p.depth), depth);
      float* const out = p.out + r * p.out_stride + first;
      uint32_t& i = reached[r - row];
      add_decoded<0>(decoded, k, in, i, end, out);
      i = static_cast<uint32_t>(add_decoded<1>(decoded, k, in, i, end, out));
    }
  }
}

// Computes every row and the last strip, of which some outputs are missing.
template <class Loader>
void multiply_rest(const SparseProduct& p, const Strip& strip, int64_t first, int64_t last) {
  const auto depth = static_cast<size_t>(p.depth);
  HWY_ALIGN float all[kStripOutputs];
  for (int64_t r = 0; r < p.rows; ++r) {
    const Nonzeros in(p.in + r * nonzeros_floats(p.depth), depth);
    std::fill_n(all, kStripOutputs, 0.0f);
    size_t i = 0;
    for (size_t end = kInputsAtOnce; end < depth + kInputsAtOnce; end += kInputsAtOnce) {
      i = add_inputs<Loader>(strip, in, i, end, all);
    }
    std::copy(all, all + (last - first), p.out + r * p.out_stride + first);
  }
}

template <class Loader>
void multiply(const SparseProduct& p, int64_t first, int64_t last) {
  const StripFormat format = strip_format(p.dtype);
  const int64_t bytes = p.depth / format.block * format.block_bytes();
  const int64_t scales = p.scales == nullptr ? 0 : p.depth / p.group * kStripOutputs;
  for (int64_t o = first; o < last; o += kStripOutputs) {
    const int64_t index = o / kStripOutputs;
    const Strip strip{p.weight + index * bytes, p.scales + index * scales, static_cast<size_t>(p.group)};
    if (last - o < kStripOutputs) {
      multiply_rest<Loader>(p, strip, o, last);
      continue;
    }
    const bool decodes = p.rows >= least_decoded_rows(p.dtype) && !p.one_order;
    const auto at_once = static_cast<int64_t>(decodes ? kRowsDecodedFor : kRowsAtOnce);
    for (int64_t row = 0; row < p.rows; row += at_once) {
      const int64_t end = std::min(row + at_once, p.rows);
      if (decodes) {
        multiply_decoded<Loader>(p, strip, o, row, end);
      } else {
        multiply_strip<Loader>(p, strip, o, row, end);
      }
    }
  }
}

void SparseOutputs(const SparseProduct& p, int64_t first, int64_t last) {
  with_strip_loader(p.dtype, [&](auto loader) { multiply<decltype(loader)>(p, first, last); });
}

bool HasStripLoader(DType dtype) {
  return with_strip_loader(dtype, [](auto) {});
}

#else

bool HasStripLoader(DType) { return false; }
int64_t FindNonzeros(const float*, int64_t, float*) { return 0; }
void SparseOutputs(const SparseProduct&, int64_t, int64_t) {}

#endif

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fulmar {

HWY_EXPORT(HasStripLoader);
HWY_EXPORT(FindNonzeros);
HWY_EXPORT(SparseOutputs);

bool multiplies_strips(DType dtype) { return HWY_DYNAMIC_DISPATCH(HasStripLoader)(dtype); }

int64_t find_nonzeros(const float* in, int64_t depth, float* to) {
  return HWY_DYNAMIC_DISPATCH(FindNonzeros)(in, depth, to);
}

void sparse_outputs(const SparseProduct& product, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(SparseOutputs)(product, first, last);
}

}  // namespace fulmar
#endif
