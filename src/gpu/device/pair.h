// Batch-1 vectors between two kernels, each number split into two of the activation type (value and rounding
// remainder): tensor cores multiply both as two columns of one mma, at nearly f32 precision.
#pragma once

#include "gpu/device/element.h"

namespace fulmar::gpu {

// number = high + remainder / kRemainderScale. The scale keeps remainders clear of f16's subnormals.
template <class T>
constexpr float kRemainderScale = 1.0f;
template <>
inline constexpr float kRemainderScale<Half> = 2048.0f;

template <class T>
struct PairPointers {
  T *high, *remainder;
};

template <class T>
__device__ __forceinline__ float remainder_of(float x) {
  return (x - to_float(from_float<T>(x))) * kRemainderScale<T>;
}

template <class T>
__device__ __forceinline__ void store(const PairPointers<T>& to, int64_t at, float x) {
  to.high[at] = from_float<T>(x);
  to.remainder[at] = from_float<T>(remainder_of<T>(x));
}
template <class T>
__device__ __forceinline__ void store2(const PairPointers<T>& to, int64_t at, const Float2& v) {
  store2(to.high + at, v.x[0], v.x[1]);
  store2(to.remainder + at, remainder_of<T>(v.x[0]), remainder_of<T>(v.x[1]));
}
template <class T>
__device__ __forceinline__ void store4(const PairPointers<T>& to, int64_t at, const Float4& v) {
  Float4 remainder;
#pragma unroll
  for (int i = 0; i < 4; i++) remainder.x[i] = remainder_of<T>(v.x[i]);
  store4(to.high + at, v);
  store4(to.remainder + at, remainder);
}

}  // namespace fulmar::gpu
