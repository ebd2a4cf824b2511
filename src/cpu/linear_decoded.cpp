// Register tiles of rows x outputs: outputs are in vector lanes, as in memory, and inputs are broadcast, so
// that neither needs packing.
#include "cpu/linear_decoded.h"

#include <algorithm>
#include <utility>

#include "cpu/interleaved.h"
#include "cpu/simd_targets.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_decoded.cpp"
#include "hwy/foreach_target.h"
#include "cpu/coded_blocks-inl.h"
#include "cpu/strip_rows-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kPartDepth = 256;  // weights of an output that are decoded at once; whole blocks
constexpr auto kOutputs = static_cast<size_t>(kDecodedOutputs);
constexpr auto kTile = static_cast<size_t>(kInterleavedOutputs);

using Wide = hn::CappedTag<float, 16>;
using WideVec = hn::Vec<Wide>;
constexpr size_t kVectors = kOutputs / hn::MaxLanes(Wide());
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr size_t kMostRows = kManyRegisters ? (kVectors == 1 ? 14 : 6) : 12 / kVectors;

// ---- decoding

// Stores four weights of kLanes outputs, kOutputs floats from one weight to the next.
template <class Loader, size_t kAt>
HWY_INLINE void store_four(const TileBlock& block, SumsVec scale, SumsVec offset, float* to) {
  const BytesVec codes = Loader::template codes<kAt>(block);
  const WholeVec whole[4] = {code_of<Loader, 0>(codes), code_of<Loader, 1>(codes), code_of<Loader, 2>(codes),
                             code_of<Loader, 3>(codes)};
  for (size_t i = 0; i < 4; ++i) {
    const SumsVec number = hn::ConvertTo(Sums(), whole[i]);
    const bool plain = Loader::kOffset == Offset::none;
    hn::StoreU(plain ? hn::Mul(number, scale) : hn::MulAdd(number, scale, offset), Sums(),
               to + (kAt + i) * kOutputs + block.lane);
  }
}

template <class Loader, size_t kShareIndex, size_t... kVector>
HWY_INLINE void store_share(const TileBlock& block, float* to, std::index_sequence<kVector...>) {
  const SumsVec scale = Loader::template scale<kShareIndex>(block);
  const SumsVec offset = offset_of<Loader, kShareIndex>(block, scale);
  (store_four<Loader, kShareIndex * Loader::kShare + 4 * kVector>(block, scale, offset, to), ...);
}

template <class Loader, size_t... kShareIndex>
HWY_INLINE void store_block(const TileBlock& block, float* to, std::index_sequence<kShareIndex...>) {
  (store_share<Loader, kShareIndex>(block, to, std::make_index_sequence<Loader::kShare / 4>()), ...);
}

// Decodes the weights [first, first + count) of a tile, whole blocks: [weight][kOutputs].
template <class Loader>
void decode_interleaved(const DotProduct& p, size_t tile, size_t first, size_t count, float* to) {
  const size_t blocks = static_cast<size_t>(p.depth) / Loader::kBlock;
  for (size_t k = first; k < first + count; k += Loader::kBlock, to += Loader::kBlock * kOutputs) {
    TileBlock block{p.weight + (tile * blocks + k / Loader::kBlock) * kTile * Loader::kBytes};
    if (p.scales != nullptr) {
      const auto group = static_cast<size_t>(p.group), groups = static_cast<size_t>(p.depth) / group;
      block.scales = p.scales + (tile * groups + k / group) * kTile;
    }
    for (; block.lane < kTile; block.lane += kLanes) {
      store_block<Loader>(block, to, std::make_index_sequence<Loader::kBlock / Loader::kShare>());
    }
  }
}

// Decodes interleaved weights [first, first + count) of the outputs from `output`
// on, of which `outputs` exist.
template <class Loader>
struct InterleavedDecoder {
  static void decode(const DotProduct& p, size_t output, size_t outputs, size_t first, size_t count,
                     float* to) {
    decode_interleaved<Loader>(p, output / kTile, first, count, to);
    if (outputs > kTile) decode_interleaved<Loader>(p, output / kTile + 1, first, count, to + kTile);
  }
};

// Decodes transposed weights.
template <class Loader>
struct TransposedDecoder {
  static void decode(const DotProduct& p, size_t output, size_t, size_t first, size_t count, float* to) {
    const StripFormat format = strip_format(p.dtype);
    const auto index = static_cast<int64_t>(output) / kStripOutputs;
    const int64_t groups = p.scales == nullptr ? 0 : p.depth / p.group;
    const Strip strip{p.weight + index * (p.depth / format.block) * format.block_bytes(),
                      p.scales + index * groups * kStripOutputs, static_cast<size_t>(p.group)};
    const size_t o = output % kHalfOutputs;
    if (output % kStripOutputs < kHalfOutputs) {
      decode_rows<Loader, 0, kOutputs, kOutputs>(strip, o, first, first + count, to);
    } else {
      decode_rows<Loader, 1, kOutputs, kOutputs>(strip, o, first, first + count, to);
    }
  }
};

// ---- products

// Rows of input from some term on, and the weights and outputs that belong to them.
struct RowTile {
  const float* weight = nullptr;  // [depth][kOutputs]
  const float* in = nullptr;
  size_t in_stride = 0;
  float* out = nullptr;
  size_t out_stride = 0;
  size_t depth = 0;    // a multiple of 4
  size_t outputs = 0;  // that exist
  bool fresh = false;  // the first terms
};

template <size_t kRows>
HWY_INLINE void store_row(const RowTile& t, size_t r, const WideVec (&sum)[kRows][kVectors]) {
  const Wide d;
  HWY_ALIGN float all[kOutputs];
  float* const out = t.out + r * t.out_stride;
  float* const to = t.outputs == kOutputs ? out : all;
  if (to == all && !t.fresh) std::copy(out, out + t.outputs, all);
  for (size_t v = 0; v < kVectors; ++v) {
    float* const at = to + v * hn::Lanes(d);
    hn::StoreU(t.fresh ? sum[r][v] : hn::Add(hn::LoadU(d, at), sum[r][v]), d, at);
  }
  if (to == all) std::copy(all, all + t.outputs, out);
}

template <size_t kRows>
HWY_INLINE void add_term(const RowTile& t, const float* const (&in)[kRows], size_t k,
                         WideVec (&sum)[kRows][kVectors]) {
  const Wide d;
  WideVec weight[kVectors];
  for (size_t v = 0; v < kVectors; ++v) weight[v] = hn::Load(d, t.weight + k * kOutputs + v * hn::Lanes(d));
  for (size_t r = 0; r < kRows; ++r) {
    const WideVec x = hn::Set(d, in[r][k]);
    for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, weight[v], sum[r][v]);
  }
}

template <size_t kRows>
void multiply_rows(const RowTile& t) {
  WideVec sum[kRows][kVectors];
  for (auto& row : sum) {
    for (WideVec& vector : row) vector = hn::Zero(Wide());
  }
  const float* in[kRows];
  for (size_t r = 0; r < kRows; ++r) in[r] = t.in + r * t.in_stride;
  // Four terms an iteration: counting the loop takes slots that multiply-adds could have.
  for (size_t k = 0; k < t.depth; k += 4) {
    add_term(t, in, k, sum);
    add_term(t, in, k + 1, sum);
    add_term(t, in, k + 2, sum);
    add_term(t, in, k + 3, sum);
  }
  for (size_t r = 0; r < kRows; ++r) store_row(t, r, sum);
}

// Multiplies `rows` rows, at most kRows.
template <size_t kRows>
void multiply_up_to(const RowTile& t, size_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_up_to<kRows - 1>(t, rows);
  }
  multiply_rows<kRows>(t);
}

template <class Decoder>
void multiply(const DotProduct& p, int64_t first, int64_t last) {
  HWY_ALIGN float decoded[kPartDepth * kOutputs];
  const auto depth = static_cast<size_t>(p.depth), rows = static_cast<size_t>(p.rows);
  const size_t groups = (rows + kMostRows - 1) / kMostRows;
  for (size_t k = 0; k < depth; k += kPartDepth) {
    for (auto o = static_cast<size_t>(first); o < static_cast<size_t>(last); o += kOutputs) {
      RowTile tile{.weight = decoded,
                   .in_stride = static_cast<size_t>(p.in_stride),
                   .out_stride = static_cast<size_t>(p.out_stride),
                   .depth = std::min(kPartDepth, depth - k),
                   .outputs = std::min(kOutputs, static_cast<size_t>(last) - o),
                   .fresh = k == 0};
      Decoder::decode(p, o, tile.outputs, k, tile.depth, decoded);
      for (size_t group = 0; group < groups; ++group) {
        const size_t row = rows * group / groups, end = rows * (group + 1) / groups;
        tile.in = p.in + row * tile.in_stride + k;
        tile.out = p.out + row * tile.out_stride + o;
        multiply_up_to<kMostRows>(tile, end - row);
      }
    }
  }
}

void DecodedOutputs(const DotProduct& p, int64_t first, int64_t last) {
  if (p.transposed) {
    with_strip_loader(p.dtype, [&](auto l) { multiply<TransposedDecoder<decltype(l)>>(p, first, last); });
  } else {
    with_loader(p.dtype, [&](auto l) { multiply<InterleavedDecoder<decltype(l)>>(p, first, last); });
  }
}

#else

void DecodedOutputs(const DotProduct&, int64_t, int64_t) {}

#endif

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fulmar {

HWY_EXPORT(DecodedOutputs);

void decoded_outputs(const DotProduct& product, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(DecodedOutputs)(product, first, last);
}

}  // namespace fulmar
#endif
