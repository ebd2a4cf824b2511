// The value GEMM of the fused quantised feed-forward (ffn_packed.cu): the hidden channels that relu² leaves
// nonzero times their rows of the value matrix, stored transposed [F, C]. With mma at several rows, with
// plain multiply-adds at batch 1.
#pragma once

#include "gpu/device/equal_share.h"
#include "gpu/gemm/layout/transposed_load.h"
#include "gpu/gemm/skinny_q_stream.h"

namespace fulmar::gpu {

constexpr int kFfnPackedWarps = 16;
constexpr int kFfnPackedThreads = kFfnPackedWarps * kWarp;
constexpr int kMostGroups = 8;   // per block
constexpr int kRoundGroups = 4;  // groups that a warp's lanes process at once: a round
constexpr int kMostChannels = kMostGroups * kPackedGroup;
constexpr int kFfnColumns = 8;  // N of an mma

template <class T>
struct FfnPackedArguments {
  Rows<const T> in;    // [R, K]
  const T* remainder;  // [K] at batch 1, or null
  float remainder_factor;
  PackedMatrix key, value;
  float* partial;             // [blocks, R, C]
  int rows, columns, groups;  // R; columns of the inputs; F / 32
  int part_columns;           // `columns` rounded up to a power of two, at least 2
};

using HiddenGroups = EqualShare;  // a block's groups of 32 hidden channels

// The hidden channels of each group that are nonzero after relu² in any row, in quads (fours), and their
// values, padded with zeros to whole quads.
template <class T>
struct KeptQuads {
  static constexpr int kStride = kMostChannels + 8;  // against bank conflicts
  Unset<T> hidden[kFfnColumns][kStride];             // of all channels
  alignas(8) Unset<T> value[kFfnColumns][kStride];
  alignas(4) uint8_t place[kMostChannels];  // within the group
  bool any[kMostChannels];
  int quads[kMostGroups];

  // Returns the value-matrix row of channel i of a quad.
  struct QuadRows {
    int64_t first;
    uint32_t places;
    __device__ __forceinline__ int64_t operator()(int i) const { return first + (places >> 8 * i & 255); }
  };
  __device__ __forceinline__ QuadRows rows(int at, int group) const {
    return {static_cast<int64_t>(group) * kPackedGroup, *reinterpret_cast<const uint32_t*>(place + at)};
  }
};

// Loop order of a warp: 64-output slice, then round (up to four 32-channel groups), then quad of kept
// channels. Lane position q (0..3) works on group q of the round; with one or two groups, lanes share a group
// and take every fourth or second quad.
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
  // Returns the offset of the lane's quad in shared memory; -1: it has none.
  __device__ __forceinline__ int quad() const {
    const int at = first_ + step * stride_;
    return at < quads_ ? group * kPackedGroup + at * kValueQuad : -1;
  }

  int slice, step = 0;
  int group;  // index among the block's groups

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
  int first_, stride_, quads_;  // of this lane; 0 quads: none
  int steps_;                   // the most of any lane, at least one
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
  static constexpr int kAhead = bits_of(kKind) == 8 ? 3 : 4;  // steps in flight
  using Codes = ValueCodes<kKind, kKeptLaneOuts>;
  using Factors = ValueFactors<kKind, kKeptLaneOuts>;

  __device__ int first_out(int slice) const { return slice * kKeptOuts + fragment_group() * kKeptLaneOuts; }
  __device__ __forceinline__ void fetch(Codes& to, const ValueStep<T>& at) const {
    to = Codes{};
    const int quad = at.quad();
    if (quad < 0 || at.slice >= slices_) return;
    load_value_codes<kKind>(to, a_.value, first_out(at.slice), kept_.rows(quad, own_.first + at.group));
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
  // Stores the sums of a slice: outputs 2j and 2j + 1 of the lane's eight are rows g and g + 8, columns are
  // rows of the batch.
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

// Iterates over a block's quads, one group after the other.
template <class T>
class QuadCursor {
 public:
  __device__ QuadCursor(const HiddenGroups& own, const KeptQuads<T>& kept) : own_(own), kept_(kept) {
    next_group();
  }
  __device__ __forceinline__ bool valid() const { return group < own_.count; }
  __device__ __forceinline__ void next() {
    if (++step >= kept_.quads[group]) next_group();
  }
  __device__ __forceinline__ void next_group() {
    step = 0;
    do group++;
    while (group < own_.count && kept_.quads[group] == 0);
  }
  // Returns the quad's offset in shared memory.
  __device__ __forceinline__ int quad() const { return group * kPackedGroup + step * kValueQuad; }

  int group = -1, step = 0;

 private:
  const HiddenGroups& own_;
  const KeptQuads<T>& kept_;
};

// The value GEMM at batch 1: a thread has eight adjacent outputs and processes all quads with plain
// multiply-adds; an mma would leave seven of eight columns empty.
template <class T, CodeKind kKind, ScaleLayout kScales>
class LoneValue {
 public:
  __device__ LoneValue(const FfnPackedArguments<T>& a, const HiddenGroups& own, const KeptQuads<T>& kept,
                       const uint32_t* table)
      : a_(a), own_(own), kept_(kept), table_(table) {}

  __device__ void multiply() {
    for (int out = threadIdx.x * kKeptLaneOuts; out < a_.value.outs;
         out += kFfnPackedThreads * kKeptLaneOuts) {
      multiply(out);
    }
  }

 private:
  static constexpr int kAhead = bits_of(kKind) == 8 ? 3 : 4;  // quads in flight
  using Codes = ValueCodes<kKind, kKeptLaneOuts>;
  using Factors = ValueFactors<kKind, kKeptLaneOuts>;

  __device__ __forceinline__ void multiply(int out) {
    QuadCursor<T> at(own_, kept_), fetched = at;
    Codes codes[kAhead];
    Factors factors;
    PackedFactor by[kKeptLaneOuts];
    float sum[kKeptLaneOuts] = {}, of_group[kKeptLaneOuts] = {}, inputs = 0;
    fetch_factors(factors, at, out);
#pragma unroll
    for (Codes& one : codes) fetch(one, fetched, out);
    while (at.valid()) {
#pragma unroll
      for (Codes& one : codes) {
        if (!at.valid()) break;
        if (at.step == 0) {
          value_factors_of<kKind, kKeptLaneOuts, kScales>(factors, a_.value, by);
          QuadCursor<T> next = at;
          next.next_group();
          fetch_factors(factors, next, out);
        }
        add_quad(one, at.quad(), of_group, inputs);
        fetch(one, fetched, out);
        const int group = at.group;
        at.next();
        if (at.group == group) continue;
#pragma unroll
        for (int o = 0; o < kKeptLaneOuts; o++) {
          sum[o] += of_group[o] * __low2float(by[o].scale);
          if constexpr (kKind == CodeKind::affine) sum[o] -= inputs * __low2float(by[o].least);
          of_group[o] = 0;
        }
        inputs = 0;
      }
    }
    float* to = a_.partial + static_cast<int64_t>(blockIdx.x) * a_.value.outs + out;
    store4(to, Float4{{sum[0], sum[1], sum[2], sum[3]}});
    store4(to + 4, Float4{{sum[4], sum[5], sum[6], sum[7]}});
  }
  // Loads a quad's codes and advances to the next quad.
  __device__ __forceinline__ void fetch(Codes& to, QuadCursor<T>& at, int out) const {
    if (!at.valid()) return;
    load_value_codes<kKind>(to, a_.value, out, kept_.rows(at.quad(), own_.first + at.group));
    at.next();
  }
  __device__ __forceinline__ void fetch_factors(Factors& to, const QuadCursor<T>& at, int out) const {
    if (!at.valid()) return;
    load_value_factors<kKind, kKeptLaneOuts, kScales>(to, a_.value, own_.first + at.group, out);
  }
  __device__ __forceinline__ void add_quad(const Codes& codes, int quad, float (&sums)[kKeptLaneOuts],
                                           float& inputs) const {
    const Float4 x = load4(reinterpret_cast<const T*>(&kept_.value[0][quad]));
#pragma unroll
    for (int i = 0; i < kValueQuad; i++) {
      __half2 pairs[kKeptLaneOuts / 2];
      pairs_of_row<kKind>(codes.of[i], table_, pairs);
#pragma unroll
      for (int e = 0; e < kKeptLaneOuts / 2; e++) {
        const float2 code = __half22float2(pairs[e]);
        const int first = pair_begin(kKind, e);
        sums[first] += x.x[i] * code.x, sums[first + pair_step(kKind)] += x.x[i] * code.y;
      }
      inputs += x.x[i];
    }
  }

  const FfnPackedArguments<T>& a_;
  const HiddenGroups& own_;
  const KeptQuads<T>& kept_;
  const uint32_t* table_;
};

}  // namespace fulmar::gpu
