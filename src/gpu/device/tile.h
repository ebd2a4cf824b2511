// 16 x 16 matrix products over a wave, for targets whose matrix instructions are not fragment.h's: MFMA, WMMA
// or, without either, dot products. Operands are read from shared memory; only the accumulator's layout
// (tile_layout.h) differs between targets.
#pragma once

#include <type_traits>

#include "gpu/device/dot.h"
#include "gpu/device/tile_layout.h"

#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || \
    defined(__gfx942__) || defined(__gfx950__)
#define FULMAR_MFMA
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || defined(__gfx1103__) || \
    defined(__gfx1150__) || defined(__gfx1151__)
#define FULMAR_WMMA
#endif

namespace fulmar::gpu {

// The layout of the target being compiled. Kernels are templates of this tag, since host code does not know
// the target.
struct TargetLayout {};

#if defined(FULMAR_MFMA) || defined(__CUDA_ARCH__)  // the latter so that a 64-lane layout is tested
using LayoutOfTarget = MfmaLayout;
#elif defined(FULMAR_WMMA)
using LayoutOfTarget = WmmaLayout;
#else
using LayoutOfTarget = DotLayout;
#endif
template <class Layout>
using ResolvedLayout = std::conditional_t<std::is_same_v<Layout, TargetLayout>, LayoutOfTarget, Layout>;

// Converts an operand to f16; saturates as from_float<Half> does, without branches.
__device__ __forceinline__ Half operand_of(float x) {
  return __ushort_as_half(static_cast<unsigned short>(pack_saturated(x, 0.0f) & 0xffff));
}

template <class Layout>
using TileSums = float[Layout::kSums];

// Hides x from AMD's optimiser, which would otherwise hoist all addresses of unrolled loops, or sink sums to
// their uses and keep their inputs alive; either spills registers.
template <class T>
__device__ __forceinline__ T opaque(T x) {
#ifdef __AMDGCN__
  static_assert(sizeof(T) == sizeof(uint32_t));
  asm volatile("" : "+v"(x));
#endif
  return x;
}

// Returns this thread's lane in its wave.
template <class Layout>
__device__ __forceinline__ int tile_lane() {
  return opaque(static_cast<int>(threadIdx.x)) % Layout::kLanes;
}
template <class Layout>
__device__ __forceinline__ int tile_wave() {
  return static_cast<int>(threadIdx.x) / Layout::kLanes;
}

// Computes sums[i, j] += a[i, k] * b[j, k] for k < 16. All lanes of the wave call. Rows are `stride` apart;
// strides are multiples of 8 and addresses 16-byte aligned.
template <class Layout>
__device__ __forceinline__ void multiply_tiles(const Half* a, int a_stride, const Half* b, int b_stride,
                                               TileSums<Layout>& sums) {
  const int lane = tile_lane<Layout>();
#if defined(FULMAR_MFMA)
  if constexpr (std::is_same_v<Layout, MfmaLayout>) {
    using Operand = _Float16 __attribute__((ext_vector_type(MfmaLayout::kOperand)));
    using Result = float __attribute__((ext_vector_type(MfmaLayout::kSums)));
    const int line = Layout::operand_line(lane), inner = Layout::operand_inner(lane);
    const auto own_a = *reinterpret_cast<const Operand*>(a + line * a_stride + inner);
    const auto own_b = *reinterpret_cast<const Operand*>(b + line * b_stride + inner);
    Result result;
    for (int i = 0; i < Layout::kSums; i++) result[i] = sums[i];
    result = __builtin_amdgcn_mfma_f32_16x16x16f16(own_a, own_b, result, 0, 0, 0);
    for (int i = 0; i < Layout::kSums; i++) sums[i] = result[i];
    return;
  }
#elif defined(FULMAR_WMMA)
  if constexpr (std::is_same_v<Layout, WmmaLayout>) {
    using Operand = _Float16 __attribute__((ext_vector_type(WmmaLayout::kOperand)));
    using Result = float __attribute__((ext_vector_type(WmmaLayout::kSums)));
    const int line = Layout::operand_line(lane);
    Operand own_a, own_b;
    __builtin_memcpy(&own_a, a + line * a_stride, sizeof(Operand));
    __builtin_memcpy(&own_b, b + line * b_stride, sizeof(Operand));
    Result result;
    for (int i = 0; i < Layout::kSums; i++) result[i] = sums[i];
    result = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(own_a, own_b, result);
    for (int i = 0; i < Layout::kSums; i++) sums[i] = result[i];
    return;
  }
#endif
  // The fallback for any layout: each of a lane's sums is a dot product of two rows.
  const auto* column = reinterpret_cast<const uint4*>(b + Layout::column(lane) * b_stride);
  const uint4 low = column[0], high = column[1];
#pragma unroll
  for (int i = 0; i < Layout::kSums; i++) {
    const auto* row = reinterpret_cast<const uint4*>(a + Layout::row(lane, i) * a_stride);
    sums[i] = opaque(dot8<Half>(row[1], high, dot8<Half>(row[0], low, sums[i])));
  }
}

}  // namespace fulmar::gpu
