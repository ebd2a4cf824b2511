// Flags and words in memory shared between devices: how one device signals another.
#pragma once

#include <cstdint>

#include "gpu/device/device.h"

namespace fulmar::gpu {

// Publishes a flag: a release at system scope, for all that the block wrote before the last barrier.
// load_acquire_system returns it: an acquire, for what the block reads after the next barrier.
__device__ __forceinline__ void publish(uint32_t* address, uint32_t value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
#else
  __threadfence_system();
  *static_cast<volatile uint32_t*>(address) = value;
#endif
}
__device__ __forceinline__ uint32_t load_acquire_system(const uint32_t* address) {
#if defined(__CUDA_ARCH__)
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
#else
  const uint32_t value = *static_cast<const volatile uint32_t*>(address);
  __threadfence_system();
  return value;
#endif
}

// Two 64-bit numbers, each read and written atomically, without ordering to other accesses (relaxed at system
// scope); 16-byte aligned.
struct Word64x2 {
  uint64_t x, y;
};
__device__ __forceinline__ void store_relaxed_system(uint4* address, const Word64x2& value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(value.x), "l"(value.y)
               : "memory");
#else
  auto* const to = reinterpret_cast<volatile uint64_t*>(address);
  to[0] = value.x;
  to[1] = value.y;
#endif
}
__device__ __forceinline__ Word64x2 load_relaxed_system(const uint4* address) {
#if defined(__CUDA_ARCH__)
  Word64x2 value;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(value.x), "=l"(value.y)
               : "l"(address)
               : "memory");
  return value;
#else
  const auto* const from = reinterpret_cast<const volatile uint64_t*>(address);
  return {from[0], from[1]};
#endif
}

}  // namespace fulmar::gpu
