// Computes a row's largest magnitude and its codes in one pass; the row stays in a block's registers.
#include <cuda_fp8.h>

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/ptx.h"
#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/sm90/fp8_inputs.h"

namespace fulmar::gpu {

namespace {

constexpr int kInputThreads = 512, kInputVector = 8;                                   // elements of 16 bytes
constexpr int kMostInputVectors = kMostFloat8Inputs / (kInputThreads * kInputVector);  // of a thread
constexpr float kLargestFloat8 = 448.0f;

template <class T>
struct InputRows {
  Rows<const T> in;  // [rows, cols]
  uint8_t* codes;    // [rows, cols]
  float* scales;     // [rows]
  int cols;
  bool relu_squared;
};
template <class T>
struct InputLists {
  InputRows<T> each[kMostFloat8Together];
};

__device__ __forceinline__ float warp_most(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, offset));
  }
  return x;
}

__device__ float block_most(float x) {
  __shared__ float parts[kInputThreads / kWarp];
  x = warp_most(x);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  return warp_most(parts[threadIdx.x % (kInputThreads / kWarp)]);
}

// Eight numbers of a row.
template <class T>
struct InputVector {
  uint4 words;
  bool relu_squared;

  __device__ __forceinline__ Float2 pair(int i) const {
    T two[2];
    memcpy(two, &(&words.x)[i], sizeof(two));
    const Float2 x = {to_float(two[0]), to_float(two[1])};
    if (!relu_squared) return x;
    return {finish(Epilogue::relu_squared, x.x[0]), finish(Epilogue::relu_squared, x.x[1])};
  }
  __device__ __forceinline__ float most() const {
    float most = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) most = fmaxf(most, fmaxf(fabsf(pair(i).x[0]), fabsf(pair(i).x[1])));
    return most;
  }
  __device__ __forceinline__ uint2 codes(float by) const {
    uint32_t two[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const Float2 x = pair(i);
      two[i] = __nv_cvt_float2_to_fp8x2(make_float2(x.x[0] * by, x.x[1] * by), __NV_SATFINITE, __NV_E4M3);
    }
    return make_uint2(two[0] | two[1] << 16, two[2] | two[3] << 16);
  }
};

// Quantises a row. Grid: rows, inputs. kVectors: those of a thread in the widest row; a smaller constant
// takes fewer registers, so more blocks fit on an SM.
template <class T, int kVectors>
__global__ void __launch_bounds__(kInputThreads)
    quantise_inputs_kernel(const __grid_constant__ InputLists<T> inputs) {
  const InputRows<T>& a = inputs.each[blockIdx.y];
  pdl_launch_next();
  pdl_wait();
  const int64_t row = blockIdx.x;
  const auto* from = reinterpret_cast<const uint4*>(a.in[row]);
  auto* to = reinterpret_cast<uint2*>(a.codes + row * a.cols);
  InputVector<T> own[kVectors];
  const auto at = [](int i) { return static_cast<int>(threadIdx.x) + i * kInputThreads; };
  const auto has = [&](int i) { return at(i) * kInputVector < a.cols; };
  float most = 0;
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    own[i].relu_squared = a.relu_squared;
    if (has(i)) own[i].words = from[at(i)];
  }
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (has(i)) most = fmaxf(most, own[i].most());
  }
  most = block_most(most);
  const float by = most > 0 ? kLargestFloat8 / most : 0.0f;
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (has(i)) to[at(i)] = own[i].codes(by);
  }
  if (threadIdx.x == 0) a.scales[row] = most / kLargestFloat8;
}

// Calls f(vectors of a thread) for the widest of the inputs.
template <class F>
void with_input_vectors(std::span<const Float8Input> inputs, F&& f) {
  int64_t most = 0;
  for (const Float8Input& one : inputs) most = std::max(most, one.in.cols);
  using std::integral_constant;
  constexpr int64_t kAtOnce = kInputThreads * kInputVector;
  if (most <= kAtOnce) return f(integral_constant<int, 1>{});
  if (most <= 2 * kAtOnce) return f(integral_constant<int, 2>{});
  if (most <= 4 * kAtOnce) return f(integral_constant<int, 4>{});
  f(integral_constant<int, kMostInputVectors>{});
}

}  // namespace

void quantise_inputs(const Queue& queue, std::span<const Float8Input> inputs) {
  FULMAR_CHECK(!inputs.empty() && inputs.size() <= kMostFloat8Together);
  const Tensor& any = inputs.front().in;
  with_activation(any.dtype, [&](auto sample) {
    using T = decltype(sample);
    InputLists<T> lists{};
    size_t count = 0;
    for (const auto& [in, codes, scales, relu_squared] : inputs) {
      FULMAR_CHECK(in.rows == any.rows && in.dtype == any.dtype && in.stride % kInputVector == 0 &&
                   in.cols <= kMostFloat8Inputs && in.cols % kInputVector == 0);
      FULMAR_CHECK(codes.dtype == DType::f8_e4m3 && codes.rows == in.rows && codes.cols == in.cols &&
                   codes.contiguous());
      lists.each[count++] = {{in.as<const T>(), in.stride},
                             codes.as<uint8_t>(),
                             scales,
                             static_cast<int>(in.cols),
                             relu_squared};
    }
    const dim3 grid(static_cast<unsigned>(any.rows), static_cast<unsigned>(count));
    with_input_vectors(inputs, [&](auto vectors) {
      launch(queue, quantise_inputs_kernel<T, vectors()>, grid, dim3(kInputThreads), 0, lists);
    });
  });
}

}  // namespace fulmar::gpu
