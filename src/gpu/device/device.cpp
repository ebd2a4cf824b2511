#include "gpu/device/device.h"

#include <map>
#include <mutex>

#include "ops/device.h"

namespace fulmar::gpu {

void device_failed(cudaError_t error, const char* call, const char* file, int line) {
  throw DeviceFailure(std::string("GPU failure: ") + cudaGetErrorString(error) + " (" +
                      cudaGetErrorName(error) + ") in " + call + " at " + file + ":" + std::to_string(line));
}

void ignore_failure(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
}

Error refused(cudaError_t error, const char* call) {
  cudaGetLastError();
  return {error == cudaErrorMemoryAllocation ? ErrorKind::resource : ErrorKind::unsupported,
          std::string("the GPU cannot be opened: ") + cudaGetErrorString(error) + " in " + call};
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
