// CUDA's and HIP's runtime and device language under one set of names, CUDA's; the rest of gpu/ uses those.
// The only header that includes a vendor's, except for the GEMM libraries' in gemm/. HIP has the same calls
// under another prefix (vendor_hip.h), used where FULMAR_HIP is defined.
#pragma once

// Set in translation units compiled for the device; in others, headers show their host functions alone.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define FULMAR_DEVICE_CODE
#endif

#if defined(FULMAR_HIP)
#include "gpu/device/vendor_hip.h"
#else
#include "gpu/device/vendor_cuda.h"
#endif

namespace fulmar::gpu {

// Threads of a warp in all kernels. A wave of 64 threads counts as two warps: shuffles pass their width, and
// no kernel uses the lanes of a whole wave.
constexpr int kWarp = 32;
constexpr unsigned kFullWarp = 0xffffffffu;

}  // namespace fulmar::gpu
