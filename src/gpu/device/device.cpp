#include "gpu/device/device.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

namespace fulmar::gpu {

void device_failed(cudaError_t error, const char* call, const char* file, int line) {
  std::fprintf(stderr, "GPU failure: %s (%s)\n  in %s\n  at %s:%d\n", cudaGetErrorString(error),
               cudaGetErrorName(error), call, file, line);
  std::abort();
}

Error refused(cudaError_t error, const char* call) {
  cudaGetLastError();
  return {error == cudaErrorMemoryAllocation ? ErrorKind::resource : ErrorKind::unsupported,
          std::string("the GPU cannot be opened: ") + cudaGetErrorString(error) + " in " + call};
}

void allow_shared(const void* kernel, size_t bytes) {
  static std::mutex mutex;
  static std::set<std::pair<const void*, int>> told;
  int device = 0;
  FULMAR_GPU(cudaGetDevice(&device));
  std::lock_guard lock(mutex);
  if (!told.emplace(kernel, device).second) return;
  FULMAR_GPU(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

}  // namespace fulmar::gpu
