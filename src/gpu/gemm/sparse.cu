// The down-projection after relu² for few rows: inputs that are zero in all rows are skipped, and with them
// their rows of the weight, which is stored transposed [K, out]. A block computes 128 outputs over one slice
// of the inputs (split-K).
#include <algorithm>

#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/device/ptx.h"
#include "gpu/gemm/sparse.h"
#include "gpu/gemm/sparse_block.h"
#include "gpu/gemm/sparse_step.h"

namespace fulmar::gpu {

namespace {

constexpr int kLeastSlice = 512, kMostSlice = 2048;
constexpr size_t kValueSharedBytes = 96 * 1024;

template <class T>
struct ValueArguments {
  Rows<const T> in;
  const T* weight;  // [K, out]
  Rows<T> out;
  float* partial;  // [slices, rows, out]
  uint32_t* counters;
  int rows, k, outs, slice, slices;
};

// Collects the slice's inputs that are not zero in all rows: their indices in kept[], their values in
// values[row][], padded with zeros to a multiple of kKeptStep. Returns their number, padding included.
template <class T, int kTiles>
__device__ int keep_inputs(const ValueArguments<T>& a, int first, uint16_t* kept, T* values, int stride) {
  __shared__ int warp_total[kValueWarps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int words = a.slice / kValueThreads / 2;  // pairs of neighbours per thread: 1, 2 or 4
  const int each = 2 * words, own = threadIdx.x * each;
  uint32_t mask = 0;
#pragma unroll 4
  for (int row = 0; row < a.rows; row++) {
    const auto* pairs = reinterpret_cast<const uint32_t*>(a.in[row] + first + own);
#pragma unroll
    for (int i = 0; i < kMostSlice / kValueThreads / 2; i++) {
      if (i >= words) break;
      const Float2 pair = load2(reinterpret_cast<const T*>(pairs + i));
      mask |= (pair.x[0] != 0.0f ? 1u : 0u) << 2 * i | (pair.x[1] != 0.0f ? 2u : 0u) << 2 * i;
    }
  }
  const int mine = __popc(mask);
  int before = mine;  // inclusive sum over the warp
#pragma unroll
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const int lower = __shfl_up_sync(kFullWarp, before, offset);
    if (lane >= offset) before += lower;
  }
  if (lane == kWarp - 1) warp_total[warp] = before;
  __syncthreads();
  int total = 0, at = before - mine;
#pragma unroll
  for (int w = 0; w < kValueWarps; w++) {
    if (w < warp) at += warp_total[w];
    total += warp_total[w];
  }
  for (int i = 0; i < each; i++) {
    if ((mask >> i & 1) == 0) continue;
    kept[at] = static_cast<uint16_t>(own + i);
    for (int row = 0; row < a.rows; row++) values[row * stride + at] = a.in[row][first + own + i];
    at++;
  }
  const int padded = (total + kKeptStep - 1) / kKeptStep * kKeptStep;
  for (int i = total + threadIdx.x; i < padded; i += kValueThreads) {
    kept[i] = 0;
    for (int row = 0; row < a.rows; row++) values[row * stride + i] = from_float<T>(0.0f);
  }
  // Rows up to the accumulators' size are read, too.
  for (int i = threadIdx.x; i < (kTiles * 8 - a.rows) * padded; i += kValueThreads) {
    values[(a.rows + i / padded) * stride + i % padded] = from_float<T>(0.0f);
  }
  __syncthreads();
  return padded;
}

// Multiplies the warp's steps: lane 4g+q loads eight outputs, from g*8 on, of four kept inputs,
// which are then paired up. Accumulator [j][t]: outputs g*8 + 2j and g*8 + 2j + 1 (as rows g and g +
// 8) for the rows 8t + 2q and 8t + 2q + 1.
template <class T, int kTiles>
__device__ void multiply_kept(const T* weight, int outs, const uint16_t* kept, const T* values, int stride,
                              int steps, int share, float (&sum)[4][kTiles][4]) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  constexpr int kStepsAhead = kTiles <= 2 ? 3 : 2;  // in flight; more would spill registers
  uint4 w[kStepsAhead][4];
  const auto fetch = [&](uint4(&to)[4], int step) {
    if (step >= steps) return;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int64_t row = kept[step * kKeptStep + 4 * q + i];
      to[i] = __ldcs(reinterpret_cast<const uint4*>(weight + row * outs + g * 8));
    }
  };
#pragma unroll
  for (int ahead = 0; ahead < kStepsAhead; ahead++) fetch(w[ahead], share + ahead * kValueShares);
  for (int base = share; base < steps; base += kStepsAhead * kValueShares) {
#pragma unroll
    for (int ahead = 0; ahead < kStepsAhead; ahead++) {
      const int step = base + ahead * kValueShares;
      if (step < steps) {
        uint2 x[kTiles];
#pragma unroll
        for (int t = 0; t < kTiles; t++) {
          x[t] = *reinterpret_cast<const uint2*>(values + (t * 8 + g) * stride + step * kKeptStep + 4 * q);
        }
        multiply_kept_step<T, kTiles>(w[ahead], x, sum);
        fetch(w[ahead], step + kStepsAhead * kValueShares);
      }
    }
  }
}

template <class T, int kTiles>
__global__ void __launch_bounds__(kValueThreads, 2)
    sparse_kernel(const __grid_constant__ ValueArguments<T> a) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int stride = a.slice + 8;  // spreads the rows over the banks
  auto* kept = reinterpret_cast<uint16_t*>(shared);
  auto* values = reinterpret_cast<T*>(shared + kMostSlice * sizeof(uint16_t));
  const int warp = threadIdx.x / kWarp;
  const int half = warp % 2, share = warp / 2;
  const int first_out = blockIdx.x * kSparseOuts, slice = blockIdx.y, first = slice * a.slice;
  pdl_launch_next();
  pdl_wait();
  const int count = keep_inputs<T, kTiles>(a, first, kept, values, stride);

  const T* slice_weight = a.weight + static_cast<int64_t>(first) * a.outs + first_out;
  float sum[4][kTiles][4] = {};
  multiply_kept<T, kTiles>(slice_weight + half * kKeptOuts, a.outs, kept, values, stride, count / kKeptStep,
                           share, sum);
  __syncthreads();  // the warps' parts overwrite the values

  const ValueSplit split{a.partial, &a.counters[blockIdx.x], a.slices, slice, a.rows, a.outs, 0, a.rows,
                         first_out};
  finish_value<kTiles>(reinterpret_cast<float*>(shared), sum, split,
                       [&](int row, int out, float total) { a.out[row][out] = from_float<T>(total); });
}

template <class T, int kTiles>
void launch_sparse_of(const Queue& queue, const SparsePlan& plan, const Gemm& gemm, const SplitWork& work) {
  const auto& [in, weight, out, epilogue] = gemm;
  const size_t values = kMostSlice * sizeof(uint16_t) +
                        static_cast<size_t>(kTiles * 8) * static_cast<size_t>(plan.slice + 8) * sizeof(T);
  const size_t bytes = std::max(values, value_part_bytes(kTiles));
  FULMAR_CHECK(bytes <= kValueSharedBytes);
  allow_shared(sparse_kernel<T, kTiles>, kValueSharedBytes);
  const ValueArguments<T> arguments{{in.as<const T>(), in.stride},
                                    static_cast<const T*>(weight.data),
                                    rows_of<T>(out),
                                    work.partial,
                                    work.counters,
                                    static_cast<int>(in.rows),
                                    static_cast<int>(weight.in),
                                    static_cast<int>(weight.out),
                                    static_cast<int>(plan.slice),
                                    static_cast<int>(plan.slices)};
  launch(queue, sparse_kernel<T, kTiles>,
         dim3(static_cast<unsigned>(weight.out / kSparseOuts), static_cast<unsigned>(plan.slices)),
         dim3(kValueThreads), bytes, arguments);
}

}  // namespace

bool suits_sparse(int64_t rows, const Weight& weight) {
  return weight.plain16() && rows <= kMostSparseRows && weight.by_input() && weight.out % kSparseOuts == 0 &&
         weight.in % kLeastSlice == 0;
}

// Plans the longest slices that still give most SMs two blocks, which is as many as run at once.
SparsePlan plan_sparse(int64_t rows, int64_t in, int64_t out, int multiprocessors) {
  SparsePlan plan{kLeastSlice, in / kLeastSlice, 0};
  for (int64_t slice = kLeastSlice * 2; slice <= kMostSlice && in % slice == 0; slice *= 2) {
    if (2 * (in / slice) * (out / kSparseOuts) < 3 * multiprocessors) break;
    plan.slice = slice;
    plan.slices = in / slice;
  }
  plan.partial_bytes = static_cast<size_t>(plan.slices * rows * out) * sizeof(float);
  return plan;
}

void launch_sparse(const Queue& queue, const SparsePlan& plan, const Gemm& gemm, const SplitWork& work) {
  with_activation(gemm.in.dtype, [&](auto sample) {
    using T = decltype(sample);
    launch_sparse_of<T, 1>(queue, plan, gemm, work);
  });
}

}  // namespace fulmar::gpu
