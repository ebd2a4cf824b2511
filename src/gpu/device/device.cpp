#include "gpu/device/device.h"

#include <map>
#include <mutex>

#include "ops/device.h"

namespace fulmar::gpu {

void device_failed(cudaError_t error, const char* call, const char* file, int line) {
  throw DeviceFailure(std::string("GPU failure: ") + cudaGetErrorString(error) + " (" +
                      cudaGetErrorName(error) + ") in " + call + " at " + file + ":" + std::to_string(line));
}

void forget_failure() { (void)cudaGetLastError(); }

void ignore_failure(cudaError_t error) {
  if (error != cudaSuccess) forget_failure();
}

Error refused(cudaError_t error, const char* call) {
  forget_failure();
  return {error == cudaErrorMemoryAllocation ? ErrorKind::resource : ErrorKind::unsupported,
          std::string("the GPU cannot be opened: ") + cudaGetErrorString(error) + " in " + call};
}

Result<DeviceFacts> device_facts(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    forget_failure();
    return Error{ErrorKind::unsupported, std::string("no GPU can be used: ") + cudaGetErrorString(error)};
  }
  if (index < 0 || index >= count) {
    return Error{ErrorKind::unsupported,
                 "there is no GPU " + std::to_string(index) + "; this machine has " + std::to_string(count)};
  }
  cudaDeviceProp properties;
  FULMAR_GPU(cudaGetDeviceProperties(&properties, index));
  DeviceFacts facts{.index = index,
                    .name = properties.name,
                    .target = target_of(properties),
                    .multiprocessors = properties.multiProcessorCount,
                    .architecture = properties.major * 10 + properties.minor,
                    .shared_memory = most_shared_memory(properties),
                    .memory_total = properties.totalGlobalMem,
                    .matrix_units = kMatrixUnits};
  facts.hopper = kHopperCode && facts.architecture == 90;
  return facts;
}

void allow_shared(const void* kernel, size_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, size_t> told;
  int device = 0;
  FULMAR_GPU(cudaGetDevice(&device));
  std::lock_guard lock(mutex);
  size_t& most = told[{kernel, device}];
  if (most >= bytes) return;
  most = bytes;
  FULMAR_GPU(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

}  // namespace fulmar::gpu
