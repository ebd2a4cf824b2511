// HIP (ROCm 5.2 and later): its runtime under CUDA's names, and plain code for what its device language
// lacks.
#pragma once

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

// ---- the runtime

#define cudaDevAttrMaxSharedMemoryPerMultiprocessor hipDeviceAttributeMaxSharedMemoryPerMultiprocessor
#define cudaDeviceCanAccessPeer hipDeviceCanAccessPeer
#define cudaDeviceEnablePeerAccess hipDeviceEnablePeerAccess
#define cudaDeviceGetAttribute hipDeviceGetAttribute
#define cudaDeviceProp hipDeviceProp_t
#define cudaDeviceSynchronize hipDeviceSynchronize
#define cudaErrorInvalidDeviceFunction hipErrorInvalidDeviceFunction
#define cudaErrorMemoryAllocation hipErrorOutOfMemory
#define cudaErrorNoKernelImageForDevice hipErrorNoBinaryForGpu
#define cudaErrorPeerAccessAlreadyEnabled hipErrorPeerAccessAlreadyEnabled
#define cudaErrorUnknown hipErrorUnknown
#define cudaError_t hipError_t
#define cudaEventCreate hipEventCreate
#define cudaEventCreateWithFlags hipEventCreateWithFlags
#define cudaEventDestroy hipEventDestroy
#define cudaEventDisableTiming hipEventDisableTiming
#define cudaEventElapsedTime hipEventElapsedTime
#define cudaEventRecord hipEventRecord
#define cudaEventSynchronize hipEventSynchronize
#define cudaEvent_t hipEvent_t
#define cudaFree hipFree
#define cudaFreeHost hipHostFree
#define cudaFuncAttributeMaxDynamicSharedMemorySize hipFuncAttributeMaxDynamicSharedMemorySize
#define cudaFuncAttributes hipFuncAttributes
#define cudaFuncGetAttributes hipFuncGetAttributes
#define cudaFuncSetAttribute hipFuncSetAttribute
#define cudaGetDevice hipGetDevice
#define cudaGetDeviceCount hipGetDeviceCount
#define cudaGetDeviceProperties hipGetDeviceProperties
#define cudaGetErrorName hipGetErrorName
#define cudaGetErrorString hipGetErrorString
#define cudaGetLastError hipGetLastError
#define cudaGraphDestroy hipGraphDestroy
#define cudaGraphExecDestroy hipGraphExecDestroy
#define cudaGraphExec_t hipGraphExec_t
#define cudaGraphInstantiate(made, graph, flags) hipGraphInstantiateWithFlags(made, graph, flags)
#define cudaGraphLaunch hipGraphLaunch
#define cudaGraph_t hipGraph_t
#define cudaMalloc hipMalloc
#define cudaMallocHost(data, bytes) hipHostMalloc(data, bytes, hipHostMallocDefault)
#define cudaMemGetInfo hipMemGetInfo
#define cudaMemcpyAsync hipMemcpyAsync
#define cudaMemcpyDeviceToDevice hipMemcpyDeviceToDevice
#define cudaMemcpyDeviceToHost hipMemcpyDeviceToHost
#define cudaMemcpyPeerAsync hipMemcpyPeerAsync
#define cudaMemcpyHostToDevice hipMemcpyHostToDevice
#define cudaMemset hipMemset
#define cudaMemsetAsync hipMemsetAsync
#define cudaSetDevice hipSetDevice
#define cudaStreamBeginCapture hipStreamBeginCapture
#define cudaStreamCaptureModeThreadLocal hipStreamCaptureModeThreadLocal
#define cudaStreamCaptureStatus hipStreamCaptureStatus
#define cudaStreamCaptureStatusNone hipStreamCaptureStatusNone
#define cudaStreamIsCapturing hipStreamIsCapturing
#define cudaStreamCreateWithFlags hipStreamCreateWithFlags
#define cudaStreamDestroy hipStreamDestroy
#define cudaStreamEndCapture hipStreamEndCapture
#define cudaStreamNonBlocking hipStreamNonBlocking
#define cudaStreamSynchronize hipStreamSynchronize
#define cudaStreamWaitEvent hipStreamWaitEvent
#define cudaStream_t hipStream_t
#define cudaSuccess hipSuccess

#define __grid_constant__

// The second argument is blocks per SM in CUDA but waves per SIMD unit in HIP: 64 lanes each, four units to a
// compute unit.
#undef __launch_bounds__
#define FULMAR_BOUNDS_OF(one, two, which, ...) which
#define FULMAR_MOST_THREADS(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define FULMAR_LEAST_BLOCKS(threads, blocks) \
  FULMAR_MOST_THREADS(threads) __attribute__((amdgpu_waves_per_eu(((threads) * (blocks) + 255) / 256)))
#define __launch_bounds__(...) \
  FULMAR_BOUNDS_OF(__VA_ARGS__, FULMAR_LEAST_BLOCKS, FULMAR_MOST_THREADS)(__VA_ARGS__)

namespace fulmar::gpu {

constexpr const char* kVendorDevice = "hip";  // as --device names it

// AMD's matrix units have other fragment layouts: kernels that need fragment.h are not chosen.
constexpr bool kMatrixUnits = false, kHopperCode = false;

using Half = __half;
using BFloat = hip_bfloat16;
using StreamHandle = hipStream_t;

inline std::string target_of(const hipDeviceProp_t& properties) { return properties.gcnArchName; }
inline size_t most_shared_memory(const hipDeviceProp_t& properties) { return properties.sharedMemPerBlock; }
constexpr int kLeastArchitecture = 0;  // none: the build has code for a target or has not

// Launches a kernel without PDL (it starts when the previous one has finished) and without clusters.
template <class... Parameters, class... Arguments>
hipError_t launch_kernel(StreamHandle stream, bool, unsigned, void (*kernel)(Parameters...), dim3 grid,
                         dim3 block, size_t shared_bytes, Arguments&&... arguments) {
  std::tuple<Parameters...> values(static_cast<Parameters>(std::forward<Arguments>(arguments))...);
  return std::apply(
      [&](auto&... each) {
        void* pointers[] = {static_cast<void*>(&each)...};
        return hipLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared_bytes,
                               stream);
      },
      values);
}

}  // namespace fulmar::gpu

// ---- the device language

#ifdef FULMAR_DEVICE_CODE

namespace fulmar::gpu {

// Stands for an instruction that the target lacks and that nothing can replace: traps if reached, rather than
// compute wrong results.
__device__ __forceinline__ void no_such_instruction() { __builtin_trap(); }

}  // namespace fulmar::gpu

// Shuffles among the 32 lanes of a warp, half of a wave on targets whose waves have 64.
template <class T>
__device__ __forceinline__ T __shfl_sync(unsigned, T x, int lane, int width = 32) {
  return __shfl(x, lane, width);
}
template <class T>
__device__ __forceinline__ T __shfl_xor_sync(unsigned, T x, int mask, int width = 32) {
  return __shfl_xor(x, mask, width);
}
template <class T>
__device__ __forceinline__ T __shfl_up_sync(unsigned, T x, unsigned by, int width = 32) {
  return __shfl_up(x, by, width);
}
// Returns the ballot of this thread's warp alone.
__device__ __forceinline__ unsigned __ballot_sync(unsigned, int predicate) {
  const auto wave = static_cast<uint64_t>(__ballot(predicate));
  return static_cast<unsigned>(wave >> (__lane_id() / 32 * 32));
}
__device__ __forceinline__ unsigned __activemask() { return __ballot_sync(0, 1); }
// Orders the compiler and memory only: lanes of a wave run in lockstep.
__device__ __forceinline__ void __syncwarp(unsigned = 0xffffffffu) {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}

// Loads, or stores, without cache hints.
template <class T>
__device__ __forceinline__ T __ldcs(const T* p) {
  return *p;
}
// Loads past all caches, to see other devices' writes.
template <class T>
__device__ __forceinline__ T __ldcv(const T* p) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  uint32_t words[sizeof(T) / sizeof(uint32_t)];
  for (size_t i = 0; i < sizeof(T) / sizeof(uint32_t); i++) {
    words[i] = __hip_atomic_load(reinterpret_cast<const uint32_t*>(p) + i, __ATOMIC_RELAXED,
                                 __HIP_MEMORY_SCOPE_SYSTEM);
  }
  T x;
  memcpy(&x, words, sizeof(T));
  return x;
}
// Loads past the compute unit's caches, to see other blocks' writes.
template <class T>
__device__ __forceinline__ T __ldcg(const T* p) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  uint32_t words[sizeof(T) / sizeof(uint32_t)];
  for (size_t i = 0; i < sizeof(T) / sizeof(uint32_t); i++) {
    words[i] = __hip_atomic_load(reinterpret_cast<const uint32_t*>(p) + i, __ATOMIC_RELAXED,
                                 __HIP_MEMORY_SCOPE_AGENT);
  }
  T x;
  memcpy(&x, words, sizeof(T));
  return x;
}
template <class T>
__device__ __forceinline__ void __stcs(T* p, T x) {
  *p = x;
}

__device__ __forceinline__ float __bfloat162float(hip_bfloat16 x) { return static_cast<float>(x); }
__device__ __forceinline__ hip_bfloat16 __float2bfloat16_rn(float x) { return hip_bfloat16(x); }
__device__ __forceinline__ __half __hmin_nan(__half a, __half b) {
  return __hisnan(a) ? a : __hlt(b, a) || __hisnan(b) ? b : a;
}
__device__ __forceinline__ __half __hmax_nan(__half a, __half b) {
  return __hisnan(a) ? a : __hgt(b, a) || __hisnan(b) ? b : a;
}

// Copies to shared memory synchronously: the barrier after each wait is all there is to wait for.
__device__ __forceinline__ void __pipeline_memcpy_async(void* to, const void* from, size_t bytes,
                                                        size_t zeros = 0) {
  if (zeros > 0) {
    memset(to, 0, bytes);
    memcpy(to, from, bytes - zeros);
  } else if (bytes == 16) {
    *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
  } else if (bytes == 8) {
    *static_cast<uint2*>(to) = *static_cast<const uint2*>(from);
  } else {
    *static_cast<uint32_t*>(to) = *static_cast<const uint32_t*>(from);
  }
}
__device__ __forceinline__ void __pipeline_commit() {}
__device__ __forceinline__ void __pipeline_wait_prior(int) {}

#endif
