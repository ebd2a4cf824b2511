// Fragments of matrix instructions (mma.sync m16n8k16): which element of a 16 x 16 left operand, a 16 x 8
// right operand and a 16 x 8 accumulator lies in which register of which lane of a warp. In all kernels g
// stands for a lane's group, lane / 4, and q for its place there, lane % 4.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// Returns g, or q, of this thread's lane 4g + q.
__device__ __forceinline__ int fragment_group() {
  const int lane = threadIdx.x % kWarp;
  return lane / 4;
}
__device__ __forceinline__ int fragment_place() {
  const int lane = threadIdx.x % kWarp;
  return lane % 4;
}

// f32 [16, 8]: element i of lane 4g + q stands at (row(g, i), column(q, i)).
struct Accumulator {
  static __device__ __forceinline__ constexpr int row(int g, int i) { return g + i / 2 * 8; }
  static __device__ __forceinline__ constexpr int column(int q, int i) { return 2 * q + i % 2; }
};

// Adds a[16, 16] * b[16, 8] to c[16, 8] over a warp. Lane 4g+q holds
//   a: (g, 2q..), (g+8, 2q..), (g, 2q+8..), (g+8, 2q+8..), each a pair along k
//   b: (2q.., g), (2q+8.., g), each a pair along k
//   c: (g, 2q), (g, 2q+1), (g+8, 2q), (g+8, 2q+1)
// Any order of the 16 positions along k will do as long as both operands agree on it.
template <class T>
__device__ __forceinline__ void mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                    uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void mma<Half>(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                          uint32_t b0, uint32_t b1) {
#if defined(__CUDA_ARCH__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  no_such_instruction();
#endif
}

template <>
__device__ __forceinline__ void mma<BFloat>(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                            uint32_t b0, uint32_t b1) {
#if defined(__CUDA_ARCH__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  no_such_instruction();
#endif
}

// Loads four 8 x 8 matrices of 16-bit numbers from shared memory (ldmatrix). Lane 8m + r passes the address
// of row r (16 bytes) of matrix m; lane 4g + q gets elements (g, 2q) and (g, 2q + 1) of each. Matrices
// adjacent along k are right operands, two per mma.
__device__ __forceinline__ uint4 load_matrices(const void* row) {
  uint4 m;
#if defined(__CUDA_ARCH__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
               : "r"(shared_address(row))
               : "memory");
#else
  m = {};
  no_such_instruction();
#endif
  return m;
}

}  // namespace fulmar::gpu
