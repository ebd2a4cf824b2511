// CUDA's headers, and what differs between vendors beyond a name.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#ifdef FULMAR_DEVICE_CODE
#include <cuda_pipeline_primitives.h>
#endif

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace fulmar::gpu {

constexpr const char* kVendorDevice = "cuda";  // as --device names it

// True if the target has the mma.sync fragments that fragment.h describes; true if the build has code for
// compute capability 9.0.
constexpr bool kMatrixUnits = true, kHopperCode = true;

using Half = __half;
using BFloat = __nv_bfloat16;
using StreamHandle = cudaStream_t;

inline std::string target_of(const cudaDeviceProp& properties) {
  return "compute capability " + std::to_string(properties.major) + "." + std::to_string(properties.minor);
}
inline size_t most_shared_memory(const cudaDeviceProp& properties) {
  return properties.sharedMemPerBlockOptin;
}
constexpr int kLeastArchitecture = 80;

// Launches a kernel. `overlap`: programmatic dependent launch (PDL). `cluster`: blocks of a cluster along x.
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(StreamHandle stream, bool overlap, unsigned cluster, void (*kernel)(Parameters...),
                          dim3 grid, dim3 block, size_t shared_bytes, Arguments&&... arguments) {
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (overlap) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {cluster, 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...);
}

#ifdef FULMAR_DEVICE_CODE
// Stands for an instruction that the target lacks and that nothing can replace: traps if reached, rather than
// compute wrong results.
__device__ __forceinline__ void no_such_instruction() { __trap(); }

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
#endif

}  // namespace fulmar::gpu
