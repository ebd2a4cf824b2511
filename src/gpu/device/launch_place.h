// Runs two kernels of one stream concurrently with PDL: the second may start at once, because both read only
// data that was ready before the first.
#pragma once

#include <cstdint>

#include "gpu/device/vendor.h"
#ifdef FULMAR_DEVICE_CODE
#include "gpu/device/ptx.h"
#endif

namespace fulmar::gpu {

// The second runs on the SMs that the first leaves free and ends after it, so that waiting for the second is
// waiting for both. All blocks of the first have to be resident at once.
enum class LaunchPlace : uint8_t { alone, first, second };

// How much of the GPU a launch may use: at most `blocks` resident blocks.
struct LaunchShare {
  int64_t blocks;
  LaunchPlace place = LaunchPlace::alone;
};

#ifdef FULMAR_DEVICE_CODE

// Begins a kernel; call first.
__device__ __forceinline__ void pdl_begin(LaunchPlace place) {
  if (place != LaunchPlace::first) pdl_launch_next();
}
// Waits until inputs may be read; call in place of pdl_wait.
__device__ __forceinline__ void pdl_wait_for_inputs(LaunchPlace place) {
  if (place != LaunchPlace::second) pdl_wait();
  if (place == LaunchPlace::first) pdl_launch_next();  // the second's inputs are ready, too
}
// Ends a kernel; call last.
__device__ __forceinline__ void pdl_end(LaunchPlace place) {
  if (place == LaunchPlace::second) pdl_wait();
}

#endif

}  // namespace fulmar::gpu
