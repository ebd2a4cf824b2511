// Instructions without a spelling in the language: matrix units, bulk copies, and the overlap of one kernel
// with the next. The only file with inline assembly beside sm90/ptx.h; architectures that lack an instruction
// get plain code.
#pragma once

#include "gpu/vendor.h"

namespace fulmar::gpu {

// Blocks until the kernels before this one in the stream have finished and their writes are visible. What
// comes before it in a kernel may touch constant data only: weights, and states of an earlier step.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel's blocks start where there is room for them.
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Brings the line at `address` into the L2 cache without waiting for it.
__device__ __forceinline__ void prefetch(const void* address) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

// The same for `bytes` bytes at once; both are multiples of 16.
__device__ __forceinline__ void prefetch(const void* address, uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes));
#else
  for (uint32_t at = 0; at < bytes; at += 128) prefetch(static_cast<const char*>(address) + at);
#endif
}

// Whether whole pieces of memory can be copied by asking once. What follows does nothing where they cannot,
// and kernels then take another way.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool kBulkCopies = true;
#define FULMAR_BULK(...) asm volatile(__VA_ARGS__)
#else
constexpr bool kBulkCopies = false;
#define FULMAR_BULK(...)
#endif

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Barriers in shared memory: a phase ends when `count` have arrived and the announced bytes have come.
__device__ __forceinline__ void init_barrier(uint64_t* barrier, uint32_t count) {
  FULMAR_BULK("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
}
// Makes initialised barriers known to copies.
__device__ __forceinline__ void publish_barriers() {
  FULMAR_BULK("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive_expecting(uint64_t* barrier, uint32_t bytes) {
  FULMAR_BULK("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
              "r"(bytes)
              : "memory");
}
// Until the phase of this parity has ended.
__device__ __forceinline__ void wait_phase(uint64_t* barrier, uint32_t parity) {
  FULMAR_BULK(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Copies of `bytes` bytes into shared memory, counted by the barrier, and from there. All are multiples
// of 16.
__device__ __forceinline__ void bring_bytes(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  FULMAR_BULK("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                  shared_address(to)),
              "l"(from), "r"(bytes), "r"(shared_address(barrier))
              : "memory");
}
__device__ __forceinline__ void send_bytes(void* to, const void* from, uint32_t bytes) {
  FULMAR_BULK("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
              "r"(shared_address(from)), "r"(bytes)
              : "memory");
  FULMAR_BULK("cp.async.bulk.commit_group;" ::: "memory");
}
// Makes what this thread has written into shared memory known to copies.
__device__ __forceinline__ void publish_to_copies() {
  FULMAR_BULK("fence.proxy.async.shared::cta;" ::: "memory");
}
// Until at most kPending of this thread's sends still read shared memory; until all have been written.
template <int kPending>
__device__ __forceinline__ void wait_sent() {
  FULMAR_BULK("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
__device__ __forceinline__ void wait_written() { FULMAR_BULK("cp.async.bulk.wait_group 0;" ::: "memory"); }
#undef FULMAR_BULK

// 2 to the x without the steps that results below 2^-126 would take: those become zero.
__device__ __forceinline__ float exp2_flushed(float x) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return x < -126.0f ? 0.0f : exp2f(x);
#endif
}

// Two numbers as halves in one word, `low` first; what lies beyond their range becomes the largest, NaN
// stays.
__device__ __forceinline__ uint32_t pack_saturated(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t word;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  constexpr float kLargest = 65504.0f;
  const auto half = [](float x) { return x > kLargest ? kLargest : x < -kLargest ? -kLargest : x; };
  return static_cast<uint32_t>(__half_as_ushort(__float2half_rn(half(high)))) << 16 |
         __half_as_ushort(__float2half_rn(half(low)));
#endif
}

// c[16, 8] += a[16, 16] * b[16, 8] over a warp. Lane 4g+q holds
//   a: (g, 2q..), (g+8, 2q..), (g, 2q+8..), (g+8, 2q+8..), each a pair along k
//   b: (2q.., g), (2q+8.., g), each a pair along k
//   c: (g, 2q), (g, 2q+1), (g+8, 2q), (g+8, 2q+1)
template <class T>
__device__ __forceinline__ void matrix_multiply_add(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                                    uint32_t a3, uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void matrix_multiply_add<Half>(float (&c)[4], uint32_t a0, uint32_t a1,
                                                          uint32_t a2, uint32_t a3, uint32_t b0,
                                                          uint32_t b1) {
#if defined(__CUDA_ARCH__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}

template <>
__device__ __forceinline__ void matrix_multiply_add<BFloat>(float (&c)[4], uint32_t a0, uint32_t a1,
                                                            uint32_t a2, uint32_t a3, uint32_t b0,
                                                            uint32_t b1) {
#if defined(__CUDA_ARCH__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}

}  // namespace fulmar::gpu
