// Register tiles of outputs x vectors of rows. Partial sums stay in a block on the stack, rows in lanes, and
// are transposed back after the last term.
#include "cpu/linear_panel.h"

#include <algorithm>

#include "cpu/simd_targets.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/linear_panel.cpp"
#include "hwy/foreach_target.h"
#include "cpu/block_decode-inl.h"
#include "cpu/weight_load-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr int kMostVectors = 3;  // of rows in a tile
constexpr size_t kLineBytes = 64;
constexpr size_t kChunk = 32;  // terms between prefetches: one line of 16-bit weights
// One line of padding keeps the rows of a weight block out of each other's cache sets.
constexpr size_t kWeightStride = kPanelDepth + 16;

// Returns the outputs of a register tile: as many as fit in registers with `vectors` inputs and one weight.
constexpr int outputs_per_tile(int vectors) {
  if (kManyRegisters) return vectors == 1 ? 16 : vectors == 2 ? 12 : 8;
  return vectors == 1 ? 8 : vectors == 2 ? 6 : 4;
}

HWY_INLINE int64_t lane_count() { return static_cast<int64_t>(hn::Lanes(F32())); }

int64_t RowTile() { return kMostVectors * lane_count(); }

int64_t RowCount(int64_t rows) { return (rows + lane_count() - 1) / lane_count() * lane_count(); }

// Sets to[j][i] = from[i][j] for i < rows, j < cols.
void transpose(const float* from, int64_t from_stride, int64_t rows, int64_t cols, float* to,
               int64_t to_stride) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  for (; i + 4 <= rows; i += 4) {
    const float* const row = from + i * from_stride;
    int64_t j = 0;
    for (; j + 4 <= cols; j += 4) {
      const auto a = hn::LoadU(d, row + j);
      const auto b = hn::LoadU(d, row + from_stride + j);
      const auto c = hn::LoadU(d, row + 2 * from_stride + j);
      const auto e = hn::LoadU(d, row + 3 * from_stride + j);
      const auto ab_lower = hn::InterleaveLower(d, a, b), ab_upper = hn::InterleaveUpper(d, a, b);
      const auto ce_lower = hn::InterleaveLower(d, c, e), ce_upper = hn::InterleaveUpper(d, c, e);
      float* const target = to + j * to_stride + i;
      hn::StoreU(hn::ConcatLowerLower(d, ce_lower, ab_lower), d, target);
      hn::StoreU(hn::ConcatUpperUpper(d, ce_lower, ab_lower), d, target + to_stride);
      hn::StoreU(hn::ConcatLowerLower(d, ce_upper, ab_upper), d, target + 2 * to_stride);
      hn::StoreU(hn::ConcatUpperUpper(d, ce_upper, ab_upper), d, target + 3 * to_stride);
    }
    for (; j < cols; ++j) {
      for (int64_t n = 0; n < 4; ++n) to[j * to_stride + i + n] = row[n * from_stride + j];
    }
  }
#endif
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

void Pack(const BlockedProduct& p, int64_t row, int64_t first, int64_t last) {
  const int64_t rows = HWY_MIN(p.rows - row, RowTile());
  const int64_t width = RowCount(rows);
  float* const tile = p.packed + row * p.depth + first * width;
  transpose(p.in + row * p.in_stride + first, p.in_stride, rows, last - first, tile, width);
  if (rows == width) return;
  for (int64_t k = 0; k < last - first; ++k) std::fill(tile + k * width + rows, tile + (k + 1) * width, 0.0f);
}

// The weights of the next block, prefetched while this one is multiplied.
struct NextWeights {
  const std::byte* weight = nullptr;
  size_t row_bytes = 0;
  size_t chunk_bytes = 0;  // bytes of kChunk terms

  NextWeights from_row(size_t n) const {
    return {weight == nullptr ? nullptr : weight + n * row_bytes, row_bytes, chunk_bytes};
  }
};

template <int kOutputs>
HWY_INLINE void fetch(const NextWeights& ahead, size_t chunk) {
  if (ahead.weight == nullptr) return;
  for (size_t n = 0; n < kOutputs; ++n) {
    const std::byte* const from = ahead.weight + n * ahead.row_bytes + chunk * ahead.chunk_bytes;
    for (size_t line = 0; line < ahead.chunk_bytes; line += kLineBytes) hwy::Prefetch(from + line);
  }
}

template <int kVectors, int kOutputs>
HWY_INLINE void add_term(const float* HWY_RESTRICT tile, const float* HWY_RESTRICT weight, size_t k,
                         F32Vec (&sum)[kOutputs][kVectors]) {
  const F32 d;
  F32Vec x[kVectors];
  for (size_t v = 0; v < kVectors; ++v) x[v] = hn::Load(d, tile + (k * kVectors + v) * hn::Lanes(d));
  for (size_t n = 0; n < kOutputs; ++n) {
    const F32Vec w = hn::Set(d, weight[n * kWeightStride + k]);
    for (size_t v = 0; v < kVectors; ++v) sum[n][v] = hn::MulAdd(x[v], w, sum[n][v]);
  }
}

// Adds to (if fresh, sets) sums[n][lane] the sum over k of tile[k][lane] * weight[n][k]; kVectors vectors.
template <int kVectors, int kOutputs>
HWY_INLINE void multiply_tile(const float* HWY_RESTRICT tile, const float* HWY_RESTRICT weight, size_t depth,
                              bool fresh, float* HWY_RESTRICT sums, const NextWeights& ahead) {
  const F32 d;
  F32Vec sum[kOutputs][kVectors];
  for (auto& output : sum) {
    for (auto& vector : output) vector = hn::Zero(d);
  }
  const size_t chunks = depth / kChunk;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    fetch<kOutputs>(ahead, chunk);
    // Four terms an iteration: counting the loop takes slots that multiply-adds could have.
    for (size_t k = chunk * kChunk; k < (chunk + 1) * kChunk; k += 4) {
      add_term(tile, weight, k, sum);
      add_term(tile, weight, k + 1, sum);
      add_term(tile, weight, k + 2, sum);
      add_term(tile, weight, k + 3, sum);
    }
  }
  for (size_t k = chunks * kChunk; k < depth; ++k) add_term(tile, weight, k, sum);
  for (size_t n = 0; n < kOutputs; ++n) {
    for (size_t v = 0; v < kVectors; ++v) {
      float* const target = sums + (n * kVectors + v) * hn::Lanes(d);
      hn::Store(fresh ? sum[n][v] : hn::Add(hn::Load(d, target), sum[n][v]), d, target);
    }
  }
}

// Multiplies all outputs of a block by one tile of rows.
template <int kVectors>
HWY_INLINE void multiply_outputs(const float* tile, const float* weight, size_t depth, size_t outputs,
                                 bool fresh, float* sums, const NextWeights& ahead) {
  constexpr size_t kFull = outputs_per_tile(kVectors);
  const size_t width = kVectors * hn::Lanes(F32());
  size_t n = 0;
  for (; n + kFull <= outputs; n += kFull) {
    multiply_tile<kVectors, kFull>(tile, weight + n * kWeightStride, depth, fresh, sums + n * width,
                                   ahead.from_row(n));
  }
  for (; n + 4 <= outputs; n += 4) {
    multiply_tile<kVectors, 4>(tile, weight + n * kWeightStride, depth, fresh, sums + n * width,
                               ahead.from_row(n));
  }
  for (; n < outputs; ++n) {
    multiply_tile<kVectors, 1>(tile, weight + n * kWeightStride, depth, fresh, sums + n * width,
                               ahead.from_row(n));
  }
}

// Widens terms [first, first + depth) of `outputs` weight rows.
template <class E>
HWY_INLINE void widen(const E* weight, size_t row_length, size_t outputs, size_t depth, float* to) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  for (size_t n = 0; n < outputs; ++n) {
    const E* const row = weight + n * row_length;
    float* const target = to + n * kWeightStride;
    size_t k = 0;
    for (; k + lanes <= depth; k += lanes) hn::Store(load_weights(row + k), d, target + k);
    if (k < depth) hn::Store(load_weights_tail(row + k, depth - k), d, target + k);
  }
}

// Multiplies one widened block of weights by every tile of rows.
HWY_NOINLINE void multiply_tiles(const BlockedProduct& p, const PanelBlock& block, int64_t first,
                                 size_t depth, const float* weight, float* sums, NextWeights ahead) {
  const auto outputs = static_cast<size_t>(block.output_end - block.output);
  for (int64_t row = block.row; row < block.row_end; row += RowTile()) {
    const int64_t width = RowCount(HWY_MIN(p.rows - row, RowTile()));
    const float* const tile = p.packed + row * p.depth + first * width;
    float* const tile_sums = sums + (row - block.row) * kPanelOutputs;
    if (width == lane_count()) {
      multiply_outputs<1>(tile, weight, depth, outputs, first == 0, tile_sums, ahead);
    } else if (width == 2 * lane_count()) {
      multiply_outputs<2>(tile, weight, depth, outputs, first == 0, tile_sums, ahead);
    } else {
      multiply_outputs<3>(tile, weight, depth, outputs, first == 0, tile_sums, ahead);
    }
    ahead.weight = nullptr;  // the first tile has fetched it all
  }
}

void store_sums(const BlockedProduct& p, const PanelBlock& block, const float* sums) {
  for (int64_t row = block.row; row < block.row_end; row += RowTile()) {
    const int64_t rows = HWY_MIN(p.rows - row, RowTile());
    transpose(sums + (row - block.row) * kPanelOutputs, RowCount(rows), block.output_end - block.output, rows,
              p.out + row * p.out_stride + block.output, p.out_stride);
  }
}

template <class E>
void multiply_block(const BlockedProduct& p, const PanelBlock& block) {
  HWY_ALIGN float widened[kPanelOutputs * kWeightStride];
  HWY_ALIGN float sums[kPanelRows * kPanelOutputs];
  const auto outputs = static_cast<size_t>(block.output_end - block.output);
  const E* const weight = reinterpret_cast<const E*>(p.weight) + block.output * p.depth;
  for (int64_t first = 0; first < p.depth; first += kPanelDepth) {
    const auto depth = static_cast<size_t>(HWY_MIN(kPanelDepth, p.depth - first));
    widen(weight + first, static_cast<size_t>(p.depth), outputs, depth, widened);
    // Prefetches the following terms, or the first ones of the block below.
    const bool more = first + kPanelDepth < p.depth;
    const E* const next = weight + (more ? first + kPanelDepth : (block.output_end - block.output) * p.depth);
    const NextWeights ahead{reinterpret_cast<const std::byte*>(next),
                            static_cast<size_t>(p.depth) * sizeof(E), kChunk * sizeof(E)};
    multiply_tiles(p, block, first, depth, widened, sums, ahead);
  }
  store_sums(p, block, sums);
}

// Multiplies a block of quantised weights, which are decoded instead of widened.
void multiply_coded_block(const BlockedProduct& p, const PanelBlock& block) {
  HWY_ALIGN float decoded[kPanelOutputs * kWeightStride];
  HWY_ALIGN float sums[kPanelRows * kPanelOutputs];
  const CodedRows rows{p.dtype, p.weight, p.scales, p.group, p.depth};
  for (int64_t first = 0; first < p.depth; first += kPanelDepth) {
    const auto depth = static_cast<size_t>(HWY_MIN(kPanelDepth, p.depth - first));
    for (int64_t o = block.output; o < block.output_end; ++o) {
      decode_part(rows, o, first, depth, decoded + static_cast<size_t>(o - block.output) * kWeightStride);
    }
    multiply_tiles(p, block, first, depth, decoded, sums, {});
  }
  store_sums(p, block, sums);
}

void Multiply(const BlockedProduct& p, const PanelBlock& block) {
  switch (p.dtype) {
    case DType::f32:
      return multiply_block<float>(p, block);
    case DType::f16:
      return multiply_block<hwy::float16_t>(p, block);
    case DType::bf16:
      return multiply_block<hwy::bfloat16_t>(p, block);
    default:
      return multiply_coded_block(p, block);
  }
}

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fulmar {

HWY_EXPORT(RowTile);
HWY_EXPORT(RowCount);
HWY_EXPORT(Pack);
HWY_EXPORT(Multiply);

int64_t panel_row_tile() { return HWY_DYNAMIC_DISPATCH(RowTile)(); }

int64_t panel_row_count(int64_t rows) { return HWY_DYNAMIC_DISPATCH(RowCount)(rows); }

void pack_panel(const BlockedProduct& product, int64_t row, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(Pack)(product, row, first, last);
}

void multiply_panel(const BlockedProduct& product, const PanelBlock& block) {
  HWY_DYNAMIC_DISPATCH(Multiply)(product, block);
}

}  // namespace fulmar
#endif
