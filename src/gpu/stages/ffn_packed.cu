// relu² feed-forward of one to eight rows with quantised weights, fused into one kernel and a reduction:
// every block streams its tiles of the key matrix past inputs in shared memory (gemm/skinny_q_stream.h), then
// multiplies the hidden channels that are nonzero after relu² in any row by their rows of the value matrix
// (stored transposed, [F, C]). One block per SM keeps the partial sums few; sum_parts adds them up in order.
// A block's hidden channels are whole groups of 32, which share scales in the value matrix: a lane stays in
// one group, and loads its scales once for eight outputs.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/pair.h"
#include "gpu/gemm/skinny_q_stream.h"
#include "gpu/stages/ffn_packed.h"
#include "gpu/stages/ffn_packed_value.h"

namespace fulmar::gpu {

namespace {

constexpr int kGroupTiles = kPackedGroup / kPackedOuts;  // tiles of a group of 32 hidden channels
constexpr size_t kStaticShared = size_t{12} << 10;

// Prefetches the scales of the block's channels for all outputs into L2; they are contiguous.
template <CodeKind kKind, ScaleLayout kScales>
__device__ void prefetch_value_scales(const PackedMatrix& m, const HiddenGroups& own) {
  constexpr int kLine = 128;
  const auto fetch = [&](const void* lines, int first, int last, int bytes) {
    const auto* from = static_cast<const char*>(lines) + static_cast<int64_t>(first) * bytes;
    for (int at = threadIdx.x * kLine; at < (last - first + 1) * bytes; at += kFfnPackedThreads * kLine) {
      prefetch_l2(from + at);
    }
  };
  const int last = own.first + own.count - 1;
  if (has_factors<kKind, kScales>(m)) {
    fetch(m.factors, own.first, last, m.outs * 2);
    if constexpr (kKind == CodeKind::affine) fetch(m.supers, own.first / 8, last / 8, m.outs * 4);
  } else {
    const auto line = [&](int group) { return group * kPackedGroup >> m.group_shift; };
    fetch(m.scales, line(own.first), line(last), m.outs * 4);
  }
}

// Computes part[tile][warp][channel][column], each warp's partial sums over its slice of K.
template <class T, CodeKind kKind, ScaleLayout kScales>
__device__ __forceinline__ void stream_packed_keys(const FfnPackedArguments<T>& a, const HiddenGroups& own,
                                                   uint4* shared, float* part, const uint32_t* table) {
  const WarpPieces<kFfnPackedWarps> pieces(a.key.pieces);
  const int g = fragment_group(), q = fragment_place(), tiles = own.count * kGroupTiles;
  const auto tile_of = [&](int tile) -> PackedTile { return {&a.key, own.first * kGroupTiles + tile}; };
  PackedStream<T, kKind, kScales, kFfnPackedWarps, decltype(tile_of)> stream(tile_of, pieces, 0, tiles);
  stream.start();
  prefetch_value_scales<kKind, kScales>(a.value, own);
  pdl_wait();
  if constexpr (kKind == CodeKind::levels) __syncthreads();  // the table of levels
  uint4* inputs = pieces.own(shared, a.columns);
  copy_warp_inputs(a.in, a.remainder, a.columns, pieces, inputs);
  stream.run(
      0, tiles, a.columns, table, [&](int) { return inputs; },
      [&](int tile, const Float4& sum) {
        if (2 * q >= a.part_columns) return;
        float* to =
            part + ((tile * kFfnPackedWarps + pieces.warp()) * kPackedOuts + g) * a.part_columns + 2 * q;
        store2(to, sum.x[0], sum.x[1]);
        store2(to + 8 * a.part_columns, sum.x[2], sum.x[3]);
      });
}

// Applies relu² to all hidden channels of the block and marks those that are nonzero in any row.
template <class T>
__device__ void find_hidden(const FfnPackedArguments<T>& a, const HiddenGroups& own, const float* part,
                            KeptQuads<T>& kept) {
  const int columns = a.part_columns, numbers = kPackedOuts * columns;
  const int warps = min(a.key.pieces, kFfnPackedWarps);
  for (int i = threadIdx.x; i < own.count * kPackedGroup * columns; i += kFfnPackedThreads) {
    const int channel = i / columns, row = i % columns;
    const float* from = part + i / numbers * kFfnPackedWarps * numbers + i % numbers;
    float x = 0;
#pragma unroll 8
    for (int w = 0; w < warps; w++) x += from[w * numbers];
    if (a.remainder_factor != 0) x += __shfl_xor_sync(kFullWarp, x, 1) * a.remainder_factor;
    const T value = from_float<T>(x > 0 && row < a.rows ? x * x : 0.0f);
    kept.hidden[row][channel].value() = value;
    int any = to_float(value) != 0.0f ? 1 : 0;
    for (int offset = columns / 2; offset > 0; offset /= 2) any |= __shfl_xor_sync(kFullWarp, any, offset);
    if (row == 0) kept.any[channel] = any != 0;
  }
}

// Collects a group's kept channels; one warp per group. Lanes without one pad the last quad with zeros.
template <class T>
__device__ void keep_group_quads(const FfnPackedArguments<T>& a, const HiddenGroups& own,
                                 KeptQuads<T>& kept) {
  const int group = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (group >= own.count) return;
  const int channel = group * kPackedGroup + lane;
  const bool keeps = kept.any[channel];
  const uint32_t mask = __ballot_sync(kFullWarp, keeps);
  const int count = __popc(mask), before = __popc(mask & ((1u << lane) - 1));
  const int quads = (count + kValueQuad - 1) / kValueQuad;
  const int at = keeps ? before : count + lane - before;
  if (lane == 0) kept.quads[group] = quads;
  if (at >= quads * kValueQuad) return;
  const int to = group * kPackedGroup + at;
  kept.place[to] = static_cast<uint8_t>(keeps ? lane : __ffs(static_cast<int>(mask)) - 1);
#pragma unroll
  for (int row = 0; row < kFfnColumns; row++) {
    kept.value[row][to].value() =
        keeps && row < a.part_columns ? kept.hidden[row][channel].value() : from_float<T>(0.0f);
  }
}

template <class T, CodeKind kKind, ScaleLayout kScales, bool kLone>
__global__ void __launch_bounds__(kFfnPackedThreads, 1)
    ffn_packed_kernel(const __grid_constant__ FfnPackedArguments<T> a) {
  extern __shared__ uint4 shared[];
  __shared__ KeptQuads<T> kept;
  __shared__ uint32_t table[kLevelPairs];
  static_assert(sizeof(kept) + sizeof(table) <= kStaticShared);
  pdl_launch_next();
  if constexpr (kKind == CodeKind::levels) fill_level_pairs(table, a.key.nf4);
  const HiddenGroups own(a.groups);
  const WarpPieces<kFfnPackedWarps> pieces(a.key.pieces);
  auto* part = reinterpret_cast<float*>(shared + kFfnPackedWarps * pieces.most * a.columns * kPackedVectors);
  stream_packed_keys<T, kKind, kScales>(a, own, shared, part, table);
  __syncthreads();
  find_hidden(a, own, part, kept);
  __syncthreads();
  keep_group_quads(a, own, kept);
  __syncthreads();
  using Value = std::conditional_t<kLone, LoneValue<T, kKind, kScales>, ValueSlices<T, kKind, kScales>>;
  Value(a, own, kept, table).multiply();
}

// Returns one block per SM, or more where these would have too many groups.
int64_t group_blocks(int64_t n_ffn, int multiprocessors) {
  const int64_t groups = n_ffn / kPackedGroup;
  return std::max<int64_t>(std::min<int64_t>(multiprocessors, groups),
                           (groups + kMostGroups - 1) / kMostGroups);
}

int64_t part_columns(int64_t columns) { return columns <= 2 ? 2 : columns <= 4 ? 4 : kFfnColumns; }

size_t shared_bytes(int64_t k, int64_t columns, int64_t groups) {
  return packed_input_bytes(k, columns, kFfnPackedWarps) +
         static_cast<size_t>(groups * kPackedGroup * kFfnPackedWarps * part_columns(columns)) * sizeof(float);
}
size_t shared_bytes(const Weight& key, int64_t columns, int64_t blocks) {
  return shared_bytes(key.in, columns, (key.out / kPackedGroup + blocks - 1) / blocks);
}

}  // namespace

int64_t ffn_packed_parts(int64_t rows, const Weight& key, const Weight& value, const DeviceFacts& facts) {
  const bool suits = rows >= 1 && rows <= kMostFfnPackedRows && key.layout == WeightLayout::fragments &&
                     value.by_input() && value.dtype == key.dtype && key.out % kPackedGroup == 0 &&
                     suits_packing_transposed(value.dtype, value.out, value.in, value.group);
  if (!suits) return 0;
  const int64_t blocks = group_blocks(key.out, facts.multiprocessors);
  const size_t bytes = shared_bytes(key, std::max<int64_t>(rows, 2), blocks);
  return bytes + kStaticShared <= facts.shared_memory ? blocks : 0;
}

size_t most_ffn_packed_bytes(int64_t rows, int64_t n_embd, int64_t n_ffn, int multiprocessors) {
  return static_cast<size_t>(group_blocks(n_ffn, multiprocessors) * std::min(rows, kMostFfnPackedRows) *
                             n_embd) *
         sizeof(float);
}

void ffn_packed(const Queue& queue, const Pair& in, const Weight& key, const Weight& value, Tensor parts) {
  const bool pair = !in.remainder.empty();
  const int64_t rows = in.high.rows, columns = pair ? 2 : rows;
  FULMAR_CHECK(parts.cols == rows * value.out && parts.contiguous() && (!pair || rows == 1) &&
               in.high.stride % 8 == 0 && parts.rows * kMostGroups * kPackedGroup >= key.out &&
               value.dtype == key.dtype);
  with_activation(in.high.dtype, [&](auto sample) {
    using T = decltype(sample);
    const FfnPackedArguments<T> a{{in.high.as<const T>(), in.high.stride},
                                  in.remainder.as<const T>(),
                                  pair ? 1.0f / kRemainderScale<T> : 0.0f,
                                  packed_matrix_of(key),
                                  packed_matrix_of(value),
                                  parts.as<float>(),
                                  static_cast<int>(rows),
                                  static_cast<int>(columns),
                                  static_cast<int>(key.out / kPackedGroup),
                                  static_cast<int>(part_columns(columns))};
    const size_t bytes = shared_bytes(key, columns, parts.rows);
    with_code_kind(packed_kind(key), packed_scales(key), [&](auto kind, auto scales) {
      const auto start = [&](auto kernel) {
        allow_shared(kernel, bytes);
        launch(queue, kernel, dim3(static_cast<unsigned>(parts.rows)), dim3(kFfnPackedThreads), bytes, a);
      };
      if constexpr (kind() != CodeKind::six) {
        if (rows == 1) return start(ffn_packed_kernel<T, kind(), scales(), true>);
        start(ffn_packed_kernel<T, kind(), scales(), false>);
      }
    });
  });
}

}  // namespace fulmar::gpu
