// Dot products of 16-bit pairs with f32 sums: v_dot2_f32_f16 where the target has it, else fused
// multiply-adds.
#pragma once

#include "gpu/device/element.h"

#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) ||     \
    defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__) || defined(__gfx1030__) ||    \
    defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1100__) || defined(__gfx1101__) || \
    defined(__gfx1102__) || defined(__gfx1103__) || defined(__gfx1150__) || defined(__gfx1151__) || \
    defined(__gfx1200__) || defined(__gfx1201__)
#define FULMAR_DOT2
#endif

namespace fulmar::gpu {

// Returns sum + a.low * b.low + a.high * b.high.
template <class T>
__device__ __forceinline__ float dot2(uint32_t a, uint32_t b, float sum) {
  const Float2 x = load2(reinterpret_cast<const T*>(&a)), y = load2(reinterpret_cast<const T*>(&b));
  return __fmaf_rn(x.x[1], y.x[1], __fmaf_rn(x.x[0], y.x[0], sum));
}

#ifdef FULMAR_DOT2
template <>
__device__ __forceinline__ float dot2<Half>(uint32_t a, uint32_t b, float sum) {
  using HalfPair = _Float16 __attribute__((ext_vector_type(2)));
  return __builtin_amdgcn_fdot2(__builtin_bit_cast(HalfPair, a), __builtin_bit_cast(HalfPair, b), sum, false);
}
#endif

// Does the same for eight elements.
template <class T>
__device__ __forceinline__ float dot8(const uint4& a, const uint4& b, float sum) {
  sum = dot2<T>(a.x, b.x, sum);
  sum = dot2<T>(a.y, b.y, sum);
  sum = dot2<T>(a.z, b.z, sum);
  return dot2<T>(a.w, b.w, sum);
}

}  // namespace fulmar::gpu
