// The down-projection behind relu² for one to eight rows: a block takes 256 outputs and one slice of the
// inputs (split-K), keeps those inputs that are not zero in all rows, and its warps share them by pairs,
// which is what dot products take (dot.h). The weight is stored transposed [K, outs].
#include "base/check.h"
#include "gpu/device/block_place.h"
#include "gpu/device/dot.h"
#include "gpu/products/dot_rows.h"
#include "gpu/products/dot_value.h"
#include "gpu/products/epilogue.h"
#include "gpu/products/split_k.h"

namespace fulmar::gpu {

namespace {

constexpr int kDotValueWarps = 8, kDotValueThreads = kDotValueWarps * kWarp;
constexpr int kDotSlice = 2 * kDotValueThreads;  // inputs of a block
constexpr int kLaneOuts = 8;                     // of a lane: a load of 16 bytes
constexpr int kDotValueOuts = kWarp * kLaneOuts;
static_assert(kDotValueOuts == kDotValueThreads);  // a thread adds up one output

template <class T>
struct DotValueArguments {
  Rows<const T> in;
  const T* weight;  // [K, outs]
  void* out;
  int64_t out_stride;
  float* partial;  // [slices, rows, outs]
  uint32_t* counters;
  int k, outs;
  bool wide;  // out is f32
  Epilogue epilogue;

  __device__ void store(int row, int o, float x) const {
    x = finish(epilogue, x);
    const int64_t at = row * out_stride + o;
    if (wide) {
      static_cast<float*>(out)[at] = x;
    } else {
      static_cast<T*>(out)[at] = from_float<T>(x);
    }
  }
};

// Inputs of a slice that are not zero in every row: their places in it and their values, padded to a pair.
template <class T, int kRows>
struct KeptPairs {
  uint16_t at[kDotSlice];
  uint32_t pair[kRows][kDotSlice / 2];  // of T
};

template <class T, int kRows>
__device__ int keep_slice(const DotValueArguments<T>& a, int first, KeptPairs<T, kRows>& kept) {
  __shared__ int counts[kDotSlice / kDotValueThreads][kDotValueWarps];
  const auto value = [&](int row, int at) -> T& { return reinterpret_cast<T*>(kept.pair[row])[at]; };
  int total = 0;
#pragma unroll
  for (int round = 0; round < kDotSlice / kDotValueThreads; round++) {
    const int own = round * kDotValueThreads + static_cast<int>(threadIdx.x);
    T x[kRows];
    bool keeps = false;
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      x[r] = first + own < a.k ? a.in[r][first + own] : from_float<T>(0.0f);
      keeps |= to_float(x[r]) != 0.0f;
    }
    const BlockPlace place = place_in_block<kDotValueWarps>(keeps, counts[round]);
    if (keeps) {
      kept.at[total + place.at] = static_cast<uint16_t>(own);
#pragma unroll
      for (int r = 0; r < kRows; r++) value(r, total + place.at) = x[r];
    }
    total += place.count;
  }
  if (total % 2 != 0 && threadIdx.x == 0) {
    kept.at[total] = 0;
#pragma unroll
    for (int r = 0; r < kRows; r++) value(r, total) = from_float<T>(0.0f);
  }
  __syncthreads();
  return (total + 1) / 2;
}

// This warp's pairs of kept inputs. `weight`: the slice's rows, from this lane's first output on.
template <class T, int kRows>
__device__ __forceinline__ void multiply_pairs(const DotValueArguments<T>& a, const T* weight,
                                               const KeptPairs<T, kRows>& kept, int pairs,
                                               float (&sum)[kRows][kLaneOuts]) {
#pragma unroll 4
  for (int pair = threadIdx.x / kWarp; pair < pairs; pair += kDotValueWarps) {
    const auto row_at = [&](int i) {
      return __ldcs(reinterpret_cast<const uint4*>(weight + static_cast<int64_t>(kept.at[i]) * a.outs));
    };
    const uint4 even = row_at(2 * pair), odd = row_at(2 * pair + 1);
    const uint32_t e[4] = {even.x, even.y, even.z, even.w}, o[4] = {odd.x, odd.y, odd.z, odd.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const uint32_t low = __byte_perm(e[j], o[j], 0x5410), high = __byte_perm(e[j], o[j], 0x7632);
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        sum[r][2 * j] = dot2<T>(low, kept.pair[r][pair], sum[r][2 * j]);
        sum[r][2 * j + 1] = dot2<T>(high, kept.pair[r][pair], sum[r][2 * j + 1]);
      }
    }
  }
}

template <class T, int kRows>
__global__ void __launch_bounds__(kDotValueThreads)
    linear_dot_value_kernel(const __grid_constant__ DotValueArguments<T> a) {
  __shared__ KeptPairs<T, kRows> kept;
  __shared__ __align__(16) float part[kDotValueWarps][kDotValueOuts];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int slice = blockIdx.y, slices = gridDim.y, first = slice * kDotSlice;
  const int first_out = blockIdx.x * kDotValueOuts, lane_out = first_out + lane * kLaneOuts;
  pdl_launch_next();
  pdl_wait();
  const int pairs = keep_slice<T, kRows>(a, first, kept);
  float sum[kRows][kLaneOuts] = {};
  if (lane_out < a.outs) {
    multiply_pairs<T, kRows>(a, a.weight + static_cast<int64_t>(first) * a.outs + lane_out, kept, pairs, sum);
  }
  const int own = first_out + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    float* to = &part[warp][lane * kLaneOuts];
    store4(to, Float4{{sum[r][0], sum[r][1], sum[r][2], sum[r][3]}});
    store4(to + 4, Float4{{sum[r][4], sum[r][5], sum[r][6], sum[r][7]}});
    __syncthreads();
    float total = 0;
#pragma unroll
    for (int w = 0; w < kDotValueWarps; w++) total += part[w][threadIdx.x];
    __syncthreads();
    if (own >= a.outs) continue;
    if (slices == 1) {
      a.store(r, own, total);
    } else {
      a.partial[(static_cast<int64_t>(slice) * kRows + r) * a.outs + own] = total;
    }
  }
  if (slices == 1) return;
  if (!arrives_last(&a.counters[blockIdx.x], gridDim.y, [] { __syncthreads(); }) || own >= a.outs) return;
  for (int r = 0; r < kRows; r++) {
    float total = 0;
#pragma unroll 8
    for (int s = 0; s < slices; s++) {
      total += __ldcg(&a.partial[(static_cast<int64_t>(s) * kRows + r) * a.outs + own]);
    }
    a.store(r, own, total);
  }
}

template <class T, int kRows>
void linear_dot_value_of(const Queue& queue, const DotValuePlan& plan, const Product& product, float* partial,
                         uint32_t* counters) {
  const DotValueArguments<T> arguments{rows_of<const T>(product.in),
                                       static_cast<const T*>(product.weight.data),
                                       product.out.data,
                                       product.out.stride,
                                       partial,
                                       counters,
                                       static_cast<int>(product.weight.in),
                                       static_cast<int>(product.weight.out),
                                       product.out.dtype == DType::f32,
                                       product.epilogue};
  launch(queue, linear_dot_value_kernel<T, kRows>,
         dim3(static_cast<unsigned>(plan.blocks), static_cast<unsigned>(plan.slices)), dim3(kDotValueThreads),
         0, arguments);
}

}  // namespace

bool suits_dot_value(Tensor in, const Weight& weight) {
  return weight.plain16() && weight.dtype == in.dtype && weight.transposed && weight.out % kLaneOuts == 0 &&
         reinterpret_cast<uintptr_t>(weight.data) % 16 == 0;
}

DotValuePlan plan_dot_value(int64_t rows, const Weight& weight) {
  const int64_t slices = (weight.in + kDotSlice - 1) / kDotSlice;
  return {(weight.out + kDotValueOuts - 1) / kDotValueOuts, slices,
          static_cast<size_t>(slices * rows * weight.out) * sizeof(float)};
}

void linear_dot_value(const Queue& queue, const DotValuePlan& plan, const Product& product, float* partial,
                      uint32_t* counters) {
  const Tensor in = product.in;
  FULMAR_CHECK(in.rows <= kMostDotRows);
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    constexpr decltype(&linear_dot_value_of<T, 1>) kByRows[kMostDotRows] = {
        linear_dot_value_of<T, 1>, linear_dot_value_of<T, 2>, linear_dot_value_of<T, 3>,
        linear_dot_value_of<T, 4>, linear_dot_value_of<T, 5>, linear_dot_value_of<T, 6>,
        linear_dot_value_of<T, 7>, linear_dot_value_of<T, 8>};
    kByRows[in.rows - 1](queue, plan, product, partial, counters);
  });
}

}  // namespace fulmar::gpu
