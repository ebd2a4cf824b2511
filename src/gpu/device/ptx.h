// Instructions without a C++ spelling: programmatic dependent launch (PDL), prefetch, mbarriers and bulk
// copies. Matrix instructions are in fragment.h and tile.h, flags between devices in system_word.h; with
// these and gemm/sm90/ptx.h this is the only inline assembly. A target that lacks an instruction gets plain
// code of the same effect; where there is none the body traps, so that no kernel can silently compute
// nothing.
#pragma once

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// ---- programmatic dependent launch: the overlap of one kernel with the next

// Blocks until the previous kernels of the stream have finished and their writes are visible. Code before it
// may read only constant data: weights, and states of an earlier step. Without PDL a kernel starts after the
// one before anyway, and this is empty.
__device__ __forceinline__ void pdl_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel's blocks start as SMs become free: a hint.
__device__ __forceinline__ void pdl_launch_next() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- logic

// Returns word & mask | bits, both constants, as one LOP3; the compiler emits two instructions.
template <uint32_t kMask, uint32_t kBits>
__device__ __forceinline__ uint32_t and_or(uint32_t word) {
#if defined(__CUDA_ARCH__)
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(word), "n"(kMask), "n"(kBits));
  return out;
#else
  return (word & kMask) | kBits;
#endif
}

// ---- prefetch: hints

// Prefetches the line at `address` into L2.
__device__ __forceinline__ void prefetch_l2(const void* address) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

// Prefetches `bytes` bytes; address and size are multiples of 16.
__device__ __forceinline__ void prefetch_l2(const void* address, uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes));
#else
  for (uint32_t at = 0; at < bytes; at += 128) prefetch_l2(static_cast<const char*>(address) + at);
#endif
}

// ---- bulk copies (cp.async.bulk) and the mbarriers that count them

// True if the target has bulk copies; kernels branch on it at compile time.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool kBulkCopies = true;
#define FULMAR_BULK(...) asm volatile(__VA_ARGS__)
#else
constexpr bool kBulkCopies = false;
#define FULMAR_BULK(...) no_such_instruction()
#endif

// Initialises a barrier in shared memory, whose phase ends when `count` threads have arrived and the expected
// bytes have been copied.
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t count) {
  FULMAR_BULK("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
}
// Makes initialised barriers visible to bulk copies.
__device__ __forceinline__ void mbarrier_publish() {
  FULMAR_BULK("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_expect_bytes(uint64_t* barrier, uint32_t bytes) {
  FULMAR_BULK("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
              "r"(bytes)
              : "memory");
}
// Waits until the phase of this parity has ended.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
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

// Copies `bytes` bytes to shared memory (the barrier counts completion), or from it; addresses
// and sizes are multiples of 16.
__device__ __forceinline__ void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  FULMAR_BULK("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                  shared_address(to)),
              "l"(from), "r"(bytes), "r"(shared_address(barrier))
              : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, const void* from, uint32_t bytes) {
  FULMAR_BULK("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
              "r"(shared_address(from)), "r"(bytes)
              : "memory");
  FULMAR_BULK("cp.async.bulk.commit_group;" ::: "memory");
}
// Makes this thread's writes to shared memory visible to bulk copies (the async proxy).
__device__ __forceinline__ void fence_async_proxy() {
  FULMAR_BULK("fence.proxy.async.shared::cta;" ::: "memory");
}
// Waits until at most kPending of this thread's bulk stores still read shared memory; until all are written.
template <int kPending>
__device__ __forceinline__ void bulk_wait_read() {
  FULMAR_BULK("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
__device__ __forceinline__ void bulk_wait_written() {
  FULMAR_BULK("cp.async.bulk.wait_group 0;" ::: "memory");
}
#undef FULMAR_BULK

// ---- time

// Returns a clock for time-outs, about one tick a nanosecond.
__device__ __forceinline__ uint64_t ticks() {
#if defined(__CUDA_ARCH__)
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
#else
  return static_cast<uint64_t>(clock64());
#endif
}

// ---- arithmetic

// Returns 2^x; results below 2^-126 are flushed to zero, which saves instructions.
__device__ __forceinline__ float exp2_flushed(float x) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return x < -126.0f ? 0.0f : exp2f(x);
#endif
}

// Packs two numbers as f16, `low` first, saturating out-of-range ones; NaN stays.
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
// Does the same with rounding toward zero.
__device__ __forceinline__ uint32_t pack_truncated(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t word;
  asm("cvt.rz.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return static_cast<uint32_t>(__half_as_ushort(__float2half_rz(high))) << 16 |
         __half_as_ushort(__float2half_rz(low));
#endif
}

}  // namespace fulmar::gpu
