// One GPU: its facts, its queues, and how kernels are launched. Every vendor call's error ends up here.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"
#include "gpu/device/vendor.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

// A vendor error is either ours or a lost device; neither can be continued from. Throws DeviceFailure.
[[noreturn]] void device_failed(cudaError_t error, const char* call, const char* file, int line);

#define FULMAR_GPU(call)                                                      \
  do {                                                                        \
    if (const cudaError_t fulmar_error = (call); fulmar_error != cudaSuccess) \
      ::fulmar::gpu::device_failed(fulmar_error, #call, __FILE__, __LINE__);  \
  } while (0)

// What is given back: on a lost device that fails, and there is nothing left to be done about it.
void ignore_failure(cudaError_t error);

// The same where a device is opened: it may be full or taken, and the program can go on without it.
Error refused(cudaError_t error, const char* call);

#define FULMAR_GPU_TRY(call)                                                  \
  do {                                                                        \
    if (const cudaError_t fulmar_error = (call); fulmar_error != cudaSuccess) \
      return ::fulmar::gpu::refused(fulmar_error, #call);                     \
  } while (0)

// After a failure that was reported or expected: later calls do not find it again.
void forget_failure();

struct DeviceFacts {
  int index = 0;
  std::string name;
  std::string target;  // what code is compiled for: "compute capability 9.0", "gfx90a"
  int multiprocessors = 0;
  int architecture = 0;       // 90 for compute capability 9.0
  size_t shared_memory = 0;   // most that one block can have
  size_t memory_total = 0;    // bytes
  bool matrix_units = false;  // whether kernels made of matrix fragments (fragment.h) may be chosen
  bool hopper = false;        // compute capability 9.0: TMA, wgmma, programmatic dependent launch
};

// Fails with kind unsupported where there is no such device, saying how many there are.
Result<DeviceFacts> device_facts(int index);

// Where kernels go. `overlap`: programmatic dependent launch (PDL): the kernel may start early, and waits by
// itself (pdl_wait) for the one before.
constexpr int kQueues = 3;
struct Queue {
  cudaStream_t stream = nullptr;
  bool overlap = false;
  int index = 0;  // below kQueues
};

// Every kernel of this backend calls pdl_wait, so that it may be launched early. Clusters of `cluster`
// blocks, of which grid.x is a multiple, are compute capability 9.0's.
template <class... Parameters, class... Arguments>
void launch_clusters(const Queue& queue, void (*kernel)(Parameters...), unsigned cluster, dim3 grid,
                     dim3 block, size_t shared_bytes, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  FULMAR_GPU(launch_kernel(queue.stream, queue.overlap, cluster, kernel, grid, block, shared_bytes,
                           std::forward<Arguments>(arguments)...));
}
template <class... Parameters, class... Arguments>
void launch(const Queue& queue, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            Arguments&&... arguments) {
  launch_clusters(queue, kernel, 1, grid, block, shared_bytes, std::forward<Arguments>(arguments)...);
}

// Lets a kernel use more than 48 KiB of shared memory; each kernel on each device is told when it wants
// more than before.
void allow_shared(const void* kernel, size_t bytes);
template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}

}  // namespace fulmar::gpu
