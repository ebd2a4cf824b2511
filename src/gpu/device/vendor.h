// The vendor's runtime and device language under one set of names, CUDA's: everything else of gpu/ is written
// in them. The only header that includes a vendor's, but for the GEMM libraries' in gemm/. HIP spells the
// same calls with another prefix (vendor_hip.h) where FULMAR_HIP is defined.
#pragma once

// Set where a vendor's compiler for device code reads: headers show others their host functions alone.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define FULMAR_DEVICE_CODE
#endif

#if defined(FULMAR_HIP)
#include "gpu/device/vendor_hip.h"
#else
#include "gpu/device/vendor_cuda.h"
#endif

namespace fulmar::gpu {

// Threads of a warp as all kernels count them. A wave of 64 threads is two warps: shuffles name their width,
// and no kernel asks for the lanes of a whole wave.
constexpr int kWarp = 32;
constexpr unsigned kFullWarp = 0xffffffffu;

}  // namespace fulmar::gpu
