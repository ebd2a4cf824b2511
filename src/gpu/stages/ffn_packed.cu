// relu² feed-forward of one to eight rows from packed codes, in one kernel and a sum: every block streams its
// tiles of the key matrix past inputs in shared memory (packed_stream.h), and multiplies what relu² leaves in
// any row with its rows of the value matrix (stored transposed, [F, C]) at once. One block a multiprocessor,
// so that few partial sums are left for sum_parts to add up, in order. A block's hidden channels are whole
// groups of 32, which share scales in the value matrix: a lane keeps to one group, and has its scales once
// for eight outputs.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/pair.h"
#include "gpu/products/packed_stream.h"
#include "gpu/products/packed_value_load.h"
#include "gpu/stages/ffn_packed.h"

namespace fulmar::gpu {

namespace {

constexpr int kFfnPackedWarps = 16;
constexpr int kFfnPackedThreads = kFfnPackedWarps * kWarp;
constexpr int kGroupTiles = kPackedGroup / kPackedOuts;  // tiles of a group of 32 hidden channels
constexpr int kMostGroups = 8;                           // of a block
constexpr int kRoundGroups = 4;                          // that a step's lanes take at once: a round
constexpr int kMostChannels = kMostGroups * kPackedGroup;
constexpr int kFfnColumns = 8;  // columns of a matrix instruction
constexpr size_t kStaticShared = size_t{12} << 10;

template <class T>
struct FfnPackedArguments {
  Rows<const T> in;    // [R, K]
  const T* remainder;  // [K] of a lone row, or null
  float remainder_factor;
  PackedMatrix key, value;
  float* partial;             // [blocks, R, C]
  int rows, columns, groups;  // R; those of the inputs; F / 32
  int part_columns;           // a power of two from 2 on that the columns fit
};

// A block's groups of 32 hidden channels, which follow one another.
struct HiddenGroups {
  int first, count;
  __device__ explicit HiddenGroups(int groups) {
    const int block = blockIdx.x, blocks = gridDim.x, whole = groups / blocks, rest = groups % blocks;
    count = whole + (block < rest ? 1 : 0);
    first = block * whole + min(block, rest);
  }
};

// Hidden channels of each group that relu² has left something of in any row, four by four (quads), and their
// values, with zeros up to whole quads.
template <class T>
struct KeptQuads {
  static constexpr int kStride = kMostChannels + 8;  // spreads the rows over the banks
  Unset<T> hidden[kFfnColumns][kStride];             // of all channels
  alignas(8) Unset<T> value[kFfnColumns][kStride];
  alignas(4) uint8_t place[kMostChannels];  // within the group
  bool any[kMostChannels];
  int quads[kMostGroups];
};

// The scales of the block's channels, of all outputs, into the L2 cache long before they are wanted: they lie
// in one piece.
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

// part[tile][warp][channel][column]: what the warp's inputs give.
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
  if constexpr (kKind == CodeKind::levels) __syncthreads();  // the table
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

// All hidden channels of the block, relu² applied, and whether any row has something of them.
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

// A warp for each group. Lanes that keep nothing fill up the last quad with zeros.
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

// A warp's steps in order: for each of its slices of 64 outputs all rounds, one step of quads after the
// other. Of a round's groups a lane's place has one; where there are fewer, every second or fourth quad.
template <class T>
class ValueStep {
 public:
  __device__ ValueStep(const HiddenGroups& own, const KeptQuads<T>& kept)
      : slice(static_cast<int>(threadIdx.x) / kWarp), own_(own), kept_(kept) {
    begin_round();
  }
  __device__ __forceinline__ void advance() {
    if (++step < steps_) return;
    advance_round();
  }
  __device__ __forceinline__ void advance_round() {
    step = 0;
    if (own_.count <= kRoundGroups) {
      slice += kFfnPackedWarps;
      return;
    }
    if (++round_ * kRoundGroups >= own_.count) {
      round_ = 0;
      slice += kFfnPackedWarps;
    }
    begin_round();
  }
  // Where the lane's quad lies in shared memory; -1: it has none.
  __device__ __forceinline__ int quad() const {
    const int at = first_ + step * stride_;
    return at < quads_ ? group * kPackedGroup + at * kValueQuad : -1;
  }

  int slice, step = 0;
  int group;  // of the block's

 private:
  __device__ void begin_round() {
    const int q = fragment_place(), groups = min(own_.count - round_ * kRoundGroups, kRoundGroups);
    const int shift = groups > 2 ? 2 : groups - 1, place = q & ((1 << shift) - 1);
    group = round_ * kRoundGroups + min(place, groups - 1);
    first_ = q >> shift, stride_ = kRoundGroups >> shift;
    quads_ = place < groups ? kept_.quads[group] : 0;
    steps_ = (quads_ + stride_ - 1) / stride_;
    steps_ = max(steps_, __shfl_xor_sync(kFullWarp, steps_, 1));
    steps_ = max(1, max(steps_, __shfl_xor_sync(kFullWarp, steps_, 2)));
  }

  const HiddenGroups& own_;
  const KeptQuads<T>& kept_;
  int round_ = 0;
  int first_, stride_, quads_;  // the lane's; 0 quads: none
  int steps_;                   // of all lanes, at least one
};

template <class T, CodeKind kKind, ScaleLayout kScales>
class ValueSlices {
 public:
  __device__ ValueSlices(const FfnPackedArguments<T>& a, const HiddenGroups& own, const KeptQuads<T>& kept,
                         const uint32_t* table)
      : a_(a), own_(own), kept_(kept), table_(table), slices_(a.value.outs / kKeptOuts) {}

  __device__ void multiply() {
    ValueStep<T> fetched(own_, kept_), at = fetched;
    Codes codes[kAhead];
    Factors factors;
    PackedFactor by[kKeptLaneOuts];
    fetch_factors(factors, at);
#pragma unroll
    for (Codes& one : codes) {
      fetch(one, fetched);
      fetched.advance();
    }
    while (at.slice < slices_) {
#pragma unroll
      for (Codes& one : codes) {
        if (at.slice >= slices_) break;
        if (at.step == 0) {
          value_factors_of<kKind, kKeptLaneOuts, kScales>(factors, a_.value, by);
          ValueStep<T> next = at;
          next.advance_round();
          fetch_factors(factors, next);
        }
        multiply_step(one, by, at);
        fetch(one, fetched);
        fetched.advance();
        const int slice = at.slice;
        at.advance();
        if (at.slice != slice) store(slice);
      }
    }
  }

 private:
  static constexpr int kAhead = bits_of(kKind) == 8 ? 3 : 4;  // steps on their way
  using Codes = ValueCodes<kKind, kKeptLaneOuts>;
  using Factors = ValueFactors<kKind, kKeptLaneOuts>;

  __device__ int first_out(int slice) const { return slice * kKeptOuts + fragment_group() * kKeptLaneOuts; }
  __device__ __forceinline__ void fetch(Codes& to, const ValueStep<T>& at) const {
    to = Codes{};
    const int quad = at.quad();
    if (quad < 0 || at.slice >= slices_) return;
    const uint32_t places = *reinterpret_cast<const uint32_t*>(kept_.place + quad);
    const int64_t first = static_cast<int64_t>(own_.first + at.group) * kPackedGroup;
    load_value_codes<kKind>(to, a_.value, first_out(at.slice),
                            [&](int i) { return first + (places >> 8 * i & 255); });
  }
  __device__ __forceinline__ void fetch_factors(Factors& to, const ValueStep<T>& at) const {
    if (at.slice >= slices_) return;
    load_value_factors<kKind, kKeptLaneOuts, kScales>(to, a_.value, own_.first + at.group,
                                                      first_out(at.slice));
  }
  __device__ __forceinline__ void multiply_step(const Codes& codes, const PackedFactor (&by)[kKeptLaneOuts],
                                                const ValueStep<T>& at) {
    const int quad = at.quad();
    uint2 x{};
    if (quad >= 0) x = *reinterpret_cast<const uint2*>(&kept_.value[fragment_group()][quad]);
    widen_value<T>(codes, by, table_, [&](int j, const uint32_t(&left)[4]) {
      mma<T>(sum_[j], left[0], left[1], left[2], left[3], x.x, x.y);
    });
  }
  // The sums of a slice: outputs 2j and 2j + 1 of the lane's eight as rows g and g + 8, rows as columns.
  __device__ __forceinline__ void store(int slice) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int row = 2 * fragment_place() + i;
      if (row >= a_.rows) continue;
      float* to =
          a_.partial + static_cast<int64_t>(blockIdx.x * a_.rows + row) * a_.value.outs + first_out(slice);
      store4(to, Float4{{sum_[0][i], sum_[0][2 + i], sum_[1][i], sum_[1][2 + i]}});
      store4(to + 4, Float4{{sum_[2][i], sum_[2][2 + i], sum_[3][i], sum_[3][2 + i]}});
    }
#pragma unroll
    for (auto& one : sum_) one[0] = one[1] = one[2] = one[3] = 0;
  }

  const FfnPackedArguments<T>& a_;
  const HiddenGroups& own_;
  const KeptQuads<T>& kept_;
  const uint32_t* table_;
  int slices_;
  float sum_[4][4] = {};
};

template <class T, CodeKind kKind, ScaleLayout kScales>
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
  ValueSlices<T, kKind, kScales>(a, own, kept, table).multiply();
}

// A block for each multiprocessor, or more where these would have too many groups.
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
  const bool suits = rows >= 1 && rows <= kMostFfnPackedRows && is_packed(key) && !key.transposed &&
                     value.transposed && value.dtype == key.dtype && key.out % kPackedGroup == 0 &&
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
      if constexpr (kind() != CodeKind::six) {
        const auto kernel = ffn_packed_kernel<T, kind(), scales()>;
        allow_shared(kernel, bytes);
        launch(queue, kernel, dim3(static_cast<unsigned>(parts.rows)), dim3(kFfnPackedThreads), bytes, a);
      }
    });
  });
}

}  // namespace fulmar::gpu
