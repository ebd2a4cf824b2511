// The down-projection from packed codes, a row of codes for each input: a block computes 128 outputs over one
// slice of the inputs (split-K). A step takes sixteen inputs, four for each lane, of one group of 32, so that
// each output has one scale for them.
#include <algorithm>

#include "base/check.h"
#include "gpu/gemm/layout/transposed_load.h"
#include "gpu/gemm/sparse_block.h"
#include "gpu/gemm/sparse_q.h"

namespace fulmar::gpu {

namespace {

static_assert(kPackedValueOuts == kSparseOuts);
constexpr int kQuad = kValueQuad, kRowsOfTile = 8;
constexpr int kPad = 16;          // of a row of inputs in shared memory; spreads the rows over the banks
constexpr int kMostStage = 2048;  // inputs of a stage of eight rows
constexpr int kMostRowTiles = 4;  // of eight rows, of a block

template <class T>
struct PackedValueArguments {
  Rows<const T> in;
  PackedMatrix weight;
  Rows<T> out;  // or
  float* wide;  // f32 [rows, outs], to which the product is added
  int64_t wide_stride;
  float* partial;      // [slices, rows, outs]
  uint32_t* counters;  // [row groups, outs / 128]
  int rows, outs, slice, slices, stage;
};

// The inputs that a stage keeps, as indices and values. Every four of them, a quad, are of one group of 32.
template <class T>
struct KeptInputs {
  T* value;  // [rows of the tiles][stride]
  int stride;
  uint16_t* place;  // [stage]
  uint8_t* group;   // [stage / 4]
  uint32_t* mask;   // [stage / 32]
  int* first_quad;  // [stage / 32 + 1]
};

// Collects the inputs of up to eight rows that are not zero in all of them. Returns the number of steps.
template <class T>
__device__ int keep_quads(const PackedValueArguments<T>& a, int first, const KeptInputs<T>& kept) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, groups = a.stage / kWarp, rows = a.rows;
  const T* const in = a.in[0] + first;
  for (int group = warp; group < groups; group += kValueWarps) {
    bool keeps = false;
#pragma unroll 8
    for (int row = 0; row < rows; row++) {
      keeps |= to_float(in[row * a.in.stride + group * kWarp + lane]) != 0.0f;
    }
    const uint32_t mask = __ballot_sync(kFullWarp, keeps);
    if (lane == 0) kept.mask[group] = mask;
  }
  __syncthreads();
  if (warp == 0) {
    int quads[2], total = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int group = 2 * lane + i;
      quads[i] = group < groups ? (__popc(kept.mask[group]) + kQuad - 1) / kQuad : 0;
      total += quads[i];
    }
    int before = total;
#pragma unroll
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const int lower = __shfl_up_sync(kFullWarp, before, offset);
      if (lane >= offset) before += lower;
    }
    if (2 * lane < groups) kept.first_quad[2 * lane] = before - total;
    if (2 * lane + 1 < groups) kept.first_quad[2 * lane + 1] = before - quads[1];
    if (lane == kWarp - 1) kept.first_quad[groups] = before;
  }
  __syncthreads();
  for (int group = warp; group < groups; group += kValueWarps) {
    const uint32_t mask = kept.mask[group];
    if (mask == 0) continue;
    const int count = __popc(mask), begin = kept.first_quad[group] * kQuad;
    const int padded = (count + kQuad - 1) / kQuad * kQuad;
    // Lanes whose input is not kept fill up the last quad with zeros.
    const bool keeps = (mask >> lane & 1) != 0;
    const int kept_before = __popc(mask & ((1u << lane) - 1));
    const int at = keeps ? kept_before : count + lane - kept_before;
    if (at < padded) {
      const int place = group * kWarp + (keeps ? lane : __ffs(static_cast<int>(mask)) - 1);
      kept.place[begin + at] = static_cast<uint16_t>(place);
#pragma unroll
      for (int row = 0; row < kRowsOfTile; row++) {
        kept.value[row * kept.stride + begin + at] =
            keeps && row < rows ? in[row * a.in.stride + place] : from_float<T>(0.0f);
      }
    }
    if (lane < padded / kQuad) kept.group[kept.first_quad[group] + lane] = static_cast<uint8_t>(group);
  }
  // Quads of zeros fill up the last step.
  const int quads = kept.first_quad[groups], steps = (quads + 3) / 4;
  if (threadIdx.x < (steps * 4 - quads) * kQuad) {
    const int at = quads * kQuad + threadIdx.x;
    kept.place[at] = 0;
    kept.group[at / kQuad] = 0;
    for (int row = 0; row < kRowsOfTile; row++) kept.value[row * kept.stride + at] = from_float<T>(0.0f);
  }
  __syncthreads();
  return steps;
}

// Copies all inputs, for more rows: which rows are padding must not change sums.
template <class T, int kTiles>
__device__ void copy_stage_inputs(const PackedValueArguments<T>& a, int first_row, int rows, int first,
                                  const KeptInputs<T>& kept) {
  constexpr int kCopyVector = 8;
  const int vectors = a.stage / kCopyVector;
  for (int i = threadIdx.x; i < kTiles * kRowsOfTile * vectors; i += kValueThreads) {
    const int row = i / vectors, at = i % vectors * kCopyVector;
    const T* from = a.in[first_row + min(row, rows - 1)] + first + at;
    *reinterpret_cast<uint4*>(kept.value + row * kept.stride + at) = *reinterpret_cast<const uint4*>(from);
  }
}

// A lane's part of a step: eight outputs of four kept inputs.
template <CodeKind kKind>
struct ValuePiece {
  ValueCodes<kKind, kKeptLaneOuts> codes;
  ValueFactors<kKind, kKeptLaneOuts> factors;
};

// Multiplies a warp's steps one by one; `place` and `group` of a quad tell which inputs it has. Accumulator
// [j][t]: the lane's outputs 2j and 2j + 1 (as rows g and g + 8) for the rows 8t + 2q, 8t + 2q + 1.
template <class T, int kTiles, CodeKind kKind>
class ValueProduct {
 public:
  static constexpr int kAhead = kTiles == 1 ? (has_supers(kKind) ? 3 : 4) : 2;  // steps in flight

  // Starts the products of a lane; out: its first output.
  __device__ ValueProduct(const PackedValueArguments<T>& a, int out, const uint32_t* table)
      : a_(a), out_(out), table_(table) {}

  // Loads the codes of four inputs; place(i): the i-th's row in the matrix; group: theirs, of 32 inputs.
  template <class Place>
  __device__ __forceinline__ void fetch(ValuePiece<kKind>& to, Place&& place, int group) const {
    load_value_codes(to.codes, a_.weight, out_, place);
    load_value_factors(to.factors, a_.weight, group, out_);
  }

  // Adds the products of a step. values: of the lane's four inputs, in row 0.
  __device__ __forceinline__ void multiply(const ValuePiece<kKind>& piece, const T* values, int stride) {
    const int g = fragment_group();
    uint2 x[kTiles];
#pragma unroll
    for (int t = 0; t < kTiles; t++) {
      x[t] = *reinterpret_cast<const uint2*>(values + (t * kRowsOfTile + g) * stride);
    }
    PackedFactor by[kKeptLaneOuts];
    value_factors_of(piece.factors, a_.weight, by);
    widen_value<T>(piece.codes, by, table_, [&](int j, const uint32_t(&left)[4]) {
#pragma unroll
      for (int t = 0; t < kTiles; t++) {
        mma<T>(sum[j][t], left[0], left[1], left[2], left[3], x[t].x, x[t].y);
      }
    });
  }

  float sum[4][kTiles][4] = {};

 private:
  const PackedValueArguments<T>& a_;
  int out_;
  const uint32_t* table_;
};

// Multiplies the slice's kept inputs, for up to eight rows.
template <class T, CodeKind kKind>
__device__ void multiply_kept_quads(const PackedValueArguments<T>& a, int first, int share,
                                    const KeptInputs<T>& kept, ValueProduct<T, 1, kKind>& product) {
  constexpr int kAhead = ValueProduct<T, 1, kKind>::kAhead;
  const int q = fragment_place(), steps = keep_quads(a, first, kept);
  ValuePiece<kKind> w[kAhead];
  const auto fetch = [&](ValuePiece<kKind>& to, int step) {
    if (step >= steps) return;
    const int quad = step * 4 + q;
    product.fetch(
        to, [&](int i) { return int64_t{first + kept.place[quad * kQuad + i]}; },
        first / kPackedGroup + kept.group[quad]);
  };
#pragma unroll
  for (int i = 0; i < kAhead; i++) fetch(w[i], share + i * kValueShares);
  for (int base = share; base < steps; base += kAhead * kValueShares) {
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ahead++) {
      const int step = base + ahead * kValueShares;
      if (step >= steps) break;
      product.multiply(w[ahead], kept.value + (step * 4 + q) * kQuad, kept.stride);
      fetch(w[ahead], step + kAhead * kValueShares);
    }
  }
}

// Multiplies all inputs of the slice, stage by stage; loads of codes run on across stages.
template <class T, int kTiles, CodeKind kKind>
__device__ void multiply_stages(const PackedValueArguments<T>& a, int first_row, int rows, int first,
                                int share, const KeptInputs<T>& kept,
                                ValueProduct<T, kTiles, kKind>& product) {
  constexpr int kAhead = ValueProduct<T, kTiles, kKind>::kAhead;
  const int q = fragment_place(), steps = a.slice / kKeptStep;
  ValuePiece<kKind> w[kAhead];
  const auto fetch = [&](ValuePiece<kKind>& to, int step) {
    if (step >= steps) return;
    const int at = first + step * kKeptStep + q * kQuad;
    product.fetch(
        to, [&](int i) { return int64_t{at + i}; }, at / kPackedGroup);
  };
#pragma unroll
  for (int i = 0; i < kAhead; i++) fetch(w[i], share + i * kValueShares);
  for (int done = 0; done < a.slice; done += a.stage) {
    if (done > 0) __syncthreads();  // all warps have finished the previous stage
    copy_stage_inputs<T, kTiles>(a, first_row, rows, first + done, kept);
    __syncthreads();
    const int begin = done / kKeptStep + share, end = (done + a.stage) / kKeptStep;
    for (int base = begin; base < end; base += kAhead * kValueShares) {
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ahead++) {
        const int step = base + ahead * kValueShares;
        product.multiply(w[ahead], kept.value + step * kKeptStep - done + q * kQuad, kept.stride);
        fetch(w[ahead], step + kAhead * kValueShares);
      }
    }
  }
}

// Computes 128 outputs of a slice. Grid: groups of 128 outputs, slices, groups of kTiles * 8 rows.
template <class T, int kTiles, CodeKind kKind>
__global__ void __launch_bounds__(kValueThreads, 2)
    sparse_q_kernel(const __grid_constant__ PackedValueArguments<T> a) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ uint32_t table[kLevelPairs];
  __shared__ uint32_t mask[kMostStage / kWarp];
  __shared__ int first_quad[kMostStage / kWarp + 1];
  __shared__ uint16_t place[kMostStage];
  __shared__ uint8_t group[kMostStage / kQuad];
  const KeptInputs<T> kept{reinterpret_cast<T*>(shared), a.stage + kPad, place, group, mask, first_quad};
  const int warp = threadIdx.x / kWarp, g = fragment_group();
  const int half = warp % 2, share = warp / 2;
  const int first_out = blockIdx.x * kSparseOuts, slice = blockIdx.y;
  const int first_row = blockIdx.z * kTiles * 8, rows = min(a.rows - first_row, kTiles * 8);
  pdl_launch_next();
  if constexpr (kKind == CodeKind::levels) fill_level_pairs(table, a.weight.nf4);
  pdl_wait();

  const int first = slice * a.slice;
  ValueProduct<T, kTiles, kKind> product(a, first_out + half * kKeptOuts + g * kKeptLaneOuts, table);
  if constexpr (kTiles == 1) {
    multiply_kept_quads(a, first, share, kept, product);
  } else {
    if constexpr (kKind == CodeKind::levels) __syncthreads();  // the table
    multiply_stages(a, first_row, rows, first, share, kept, product);
  }
  __syncthreads();  // the warps' parts overwrite the values

  uint32_t* counter = a.counters + blockIdx.z * gridDim.x + blockIdx.x;
  const ValueSplit split{a.partial, counter, a.slices, slice, a.rows, a.outs, first_row, rows, first_out};
  finish_value<kTiles>(reinterpret_cast<float*>(shared), product.sum, split,
                       [&](int row, int out, float total) {
                         if (a.wide != nullptr) {
                           atomicAdd(a.wide + row * a.wide_stride + out, total);  // no other writer
                         } else {
                           a.out[row][out] = from_float<T>(total);
                         }
                       });
}

template <class T, int kTiles, CodeKind kKind>
void launch_value(const Queue& queue, PackedValueArguments<T>& a) {
  a.stage = std::min(a.slice, kMostStage / kTiles);  // eight rows: one stage
  const size_t values = static_cast<size_t>(kTiles * 8) * static_cast<size_t>(a.stage + kPad) * sizeof(T);
  const size_t bytes = std::max(values, value_part_bytes(kTiles));
  const auto kernel = sparse_q_kernel<T, kTiles, kKind>;
  allow_shared(kernel, size_t{72} << 10);
  const auto groups = static_cast<unsigned>((a.rows + kTiles * 8 - 1) / (kTiles * 8));
  launch(queue, kernel,
         dim3(static_cast<unsigned>(a.outs / kSparseOuts), static_cast<unsigned>(a.slices), groups),
         dim3(kValueThreads), bytes, a);
}

}  // namespace

void launch_sparse_q(const Queue& queue, const SparsePlan& plan, const Gemm& gemm, const SplitWork& work) {
  const Tensor in = gemm.in, out = gemm.out;
  const Weight& weight = gemm.weight;
  FULMAR_CHECK(weight.layout == WeightLayout::packed_columns && packed_kind(weight) != CodeKind::six);
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    const bool wide = out.dtype == DType::f32;
    PackedValueArguments<T> a{{in.as<const T>(), in.stride},
                              packed_matrix_of(weight),
                              {wide ? nullptr : out.as<T>(), out.stride},
                              wide ? out.as<float>() : nullptr,
                              out.stride,
                              work.partial,
                              work.counters,
                              static_cast<int>(in.rows),
                              static_cast<int>(weight.out),
                              static_cast<int>(plan.slice),
                              static_cast<int>(plan.slices),
                              0};
    with_code_kind(packed_kind(weight), [&](auto kind) {
      if constexpr (kind() != CodeKind::six) {
        if (in.rows <= kMostSparseRows) return launch_value<T, 1, kind()>(queue, a);
        if constexpr (std::is_same_v<T, Half>) {
          launch_value<T, kMostRowTiles, kind()>(queue, a);
        } else {
          FULMAR_CHECK(false, "more than eight rows of bf16");
        }
      }
    });
  });
}

}  // namespace fulmar::gpu
