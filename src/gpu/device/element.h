// Device code's conversions between stored 16-bit types and f32, four or two elements at a time, and views of
// matrices.
#pragma once

#include "gpu/device/ptx.h"
#include "gpu/device/vendor.h"
#include "ops/state_field.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

// Calls f with a value of the element type that a 16-bit activation dtype stands for.
template <class F>
void with_activation(DType dtype, F&& f) {
  dtype == DType::bf16 ? f(BFloat{}) : f(Half{});
}

// Uninitialised storage for a T in shared memory, where initialisers are not allowed.
template <class T>
struct alignas(T) Unset {
  unsigned char bytes[sizeof(T)];

  __device__ T& value() { return *reinterpret_cast<T*>(bytes); }
};

// Views of matrices and state fields for kernels.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  __device__ T* operator[](int64_t row) const { return data + row * stride; }
};
template <class T>
Rows<T> rows_of(const Tensor& tensor) {
  return {static_cast<T*>(tensor.data), tensor.stride};
}

template <class T>
struct Slots {
  std::byte* base;
  size_t stride;
  __device__ T* operator[](int64_t slot) const {
    return reinterpret_cast<T*>(base + static_cast<size_t>(slot) * stride);
  }
};
template <class T>
Slots<T> slots_of(const StateField& field) {
  return {field.base, field.slot_stride};
}

constexpr float kLargestHalf = 65504.0f;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(Half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(BFloat x) { return __bfloat162float(x); }

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
// Converts and saturates: a finite f32 must stay finite in f16 (relu² exceeds 65504 from 256 on). NaN stays.
template <>
__device__ __forceinline__ Half from_float<Half>(float x) {
  const Half largest = __ushort_as_half(0x7bff);
  return __hmin_nan(__hmax_nan(__float2half_rn(x), __hneg(largest)), largest);
}
template <>
__device__ __forceinline__ BFloat from_float<BFloat>(float x) {
  return __float2bfloat16_rn(x);
}

// Clips x >= 0 to the range of T but stays in f32, so that kernels that keep the f32 value agree with those
// that store it as T.
template <class T>
__device__ __forceinline__ float clipped(float x) {
  return x;
}
template <>
__device__ __forceinline__ float clipped<Half>(float x) {
  return x > kLargestHalf ? kLargestHalf : x;
}

// Packs two elements into a 32-bit word, the first in the low half.
__device__ __forceinline__ uint32_t pack(Half low, Half high) {
  return static_cast<uint32_t>(__half_as_ushort(low)) | static_cast<uint32_t>(__half_as_ushort(high)) << 16;
}
template <class T>
__device__ __forceinline__ uint32_t pack_floats(float low, float high) {
  const T pair[2] = {from_float<T>(low), from_float<T>(high)};
  uint32_t word;
  memcpy(&word, pair, sizeof(word));
  return word;
}

template <>
__device__ __forceinline__ uint32_t pack_floats<Half>(float low, float high) {
  return pack_saturated(low, high);
}

struct Float4 {
  float x[4];
};
struct Float2 {
  float x[2];
};

// Loads four consecutive elements; the address is aligned to their size.
__device__ __forceinline__ Float4 load4(const float* p) {
  const float4 v = *reinterpret_cast<const float4*>(p);
  return {{v.x, v.y, v.z, v.w}};
}
template <class T>
__device__ __forceinline__ Float4 load4(const T* p) {
  const uint2 v = *reinterpret_cast<const uint2*>(p);
  T e[4];
  memcpy(e, &v, sizeof(v));
  return {{to_float(e[0]), to_float(e[1]), to_float(e[2]), to_float(e[3])}};
}
__device__ __forceinline__ void store4(float* p, const Float4& v) {
  *reinterpret_cast<float4*>(p) = make_float4(v.x[0], v.x[1], v.x[2], v.x[3]);
}
template <class T>
__device__ __forceinline__ void store4(T* p, const Float4& v) {
  *reinterpret_cast<uint2*>(p) = make_uint2(pack_floats<T>(v.x[0], v.x[1]), pack_floats<T>(v.x[2], v.x[3]));
}

// Loads two consecutive elements.
template <class T>
__device__ __forceinline__ Float2 load2(const T* p) {
  const uint32_t v = *reinterpret_cast<const uint32_t*>(p);
  T e[2];
  memcpy(e, &v, sizeof(v));
  return {{to_float(e[0]), to_float(e[1])}};
}
__device__ __forceinline__ Float2 load2(const float* p) {
  const float2 v = *reinterpret_cast<const float2*>(p);
  return {{v.x, v.y}};
}
__device__ __forceinline__ void store2(float* p, float a, float b) {
  *reinterpret_cast<float2*>(p) = make_float2(a, b);
}
template <class T>
__device__ __forceinline__ void store2(T* p, float a, float b) {
  *reinterpret_cast<uint32_t*>(p) = pack_floats<T>(a, b);
}

// Returns e^x; results below 2^-126 are flushed to zero.
__device__ __forceinline__ float exp_of(float x) { return exp2_flushed(x * 1.4426950408889634f); }
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + exp_of(-x)); }

// exp(-0.5): the decay of RWKV-7 is exp(-exp(-0.5) * sigmoid(u)).
constexpr float kDecayScale = 0.6065306597126334f;

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  return x;
}

// Returns the sum over all threads of the block, in a fixed order. All threads call; `shared` has one float
// per warp.
__device__ __forceinline__ float block_sum(float x, float* shared) {
  const int warps = (blockDim.x + kWarp - 1) / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  x = warp_sum(x);
  __syncthreads();
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return warp_sum(lane < warps ? shared[lane] : 0.0f);
}

}  // namespace fulmar::gpu
