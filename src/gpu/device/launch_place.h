// Two launches, one behind the other in a queue, that run side by side: what both read is there before the
// first one's work, so the second needs not wait for the first (PDL).
#pragma once

#include <cstdint>

#include "gpu/device/vendor.h"
#ifdef FULMAR_DEVICE_CODE
#include "gpu/device/ptx.h"
#endif

namespace fulmar::gpu {

// The second takes the multiprocessors that the first leaves free, and ends behind it, so that whoever waits
// for the second waits for both. All blocks of the first have to find room at once.
enum class LaunchPlace : uint8_t { alone, first, second };

// What a launch may take of the GPU: so many blocks at once.
struct LaunchShare {
  int64_t blocks;
  LaunchPlace place = LaunchPlace::alone;
};

#ifdef FULMAR_DEVICE_CODE

// At a kernel's beginning.
__device__ __forceinline__ void pdl_begin(LaunchPlace place) {
  if (place != LaunchPlace::first) pdl_launch_next();
}
// In front of what reads inputs: as pdl_wait.
__device__ __forceinline__ void pdl_wait_for_inputs(LaunchPlace place) {
  if (place != LaunchPlace::second) pdl_wait();
  if (place == LaunchPlace::first) pdl_launch_next();  // the second's inputs are there, too
}
// At its end.
__device__ __forceinline__ void pdl_end(LaunchPlace place) {
  if (place == LaunchPlace::second) pdl_wait();
}

#endif

}  // namespace fulmar::gpu
