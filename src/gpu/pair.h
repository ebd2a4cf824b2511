// Vectors of a lone row between two kernels: each number as two of the activation type, so that nothing is
// lost that counts and matrix instructions still take them, as two columns of one product.
#pragma once

#include "gpu/element.h"

namespace fulmar::gpu {

// number = high + left / kLeftScale. The factor keeps what rounding to f16 leaves clear of f16's least
// numbers.
template <class T>
constexpr float kLeftScale = 1.0f;
template <>
inline constexpr float kLeftScale<Half> = 2048.0f;

template <class T>
struct PairPointers {
  T *high, *left;
};

template <class T>
__device__ __forceinline__ float what_is_left(float x) {
  return (x - to_float(from_float<T>(x))) * kLeftScale<T>;
}

template <class T>
__device__ __forceinline__ void store(const PairPointers<T>& to, int64_t at, float x) {
  to.high[at] = from_float<T>(x);
  to.left[at] = from_float<T>(what_is_left<T>(x));
}
template <class T>
__device__ __forceinline__ void store2(const PairPointers<T>& to, int64_t at, const Float2& v) {
  store2(to.high + at, v.x[0], v.x[1]);
  store2(to.left + at, what_is_left<T>(v.x[0]), what_is_left<T>(v.x[1]));
}
template <class T>
__device__ __forceinline__ void store4(const PairPointers<T>& to, int64_t at, const Float4& v) {
  Float4 left;
#pragma unroll
  for (int i = 0; i < 4; i++) left.x[i] = what_is_left<T>(v.x[i]);
  store4(to.high + at, v);
  store4(to.left + at, left);
}

}  // namespace fulmar::gpu
