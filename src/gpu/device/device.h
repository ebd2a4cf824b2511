// One GPU: its facts, its streams, and how kernels are launched. Every error of a vendor's call ends up here.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"
#include "gpu/device/vendor.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

// Throws DeviceFailure: a vendor's error is our bug or a lost device, and neither can be continued from.
[[noreturn]] void device_failed(cudaError_t error, const char* call, const char* file, int line);

#define FULMAR_GPU(call)                                                      \
  do {                                                                        \
    if (const cudaError_t fulmar_error = (call); fulmar_error != cudaSuccess) \
      ::fulmar::gpu::device_failed(fulmar_error, #call, __FILE__, __LINE__);  \
  } while (0)

// Ignores the error of a call that frees something: on a lost device it fails,
// and there is nothing to do.
void ignore_failure(cudaError_t error);

// Returns the error of a call made while a device is opened: it may be full or taken, and the program goes on
// without it.
Error refused(cudaError_t error, const char* call);

#define FULMAR_GPU_TRY(call)                                                  \
  do {                                                                        \
    if (const cudaError_t fulmar_error = (call); fulmar_error != cudaSuccess) \
      return ::fulmar::gpu::refused(fulmar_error, #call);                     \
  } while (0)

// Clears the runtime's sticky error after a failure that was reported or expected.
void forget_failure();

struct DeviceFacts {
  int index = 0;
  std::string name;
  std::string target;  // what code is compiled for: "compute capability 9.0", "gfx90a"
  int multiprocessors = 0;
  int architecture = 0;       // 90 for compute capability 9.0
  size_t shared_memory = 0;   // largest per block, bytes
  size_t memory_total = 0;    // bytes
  bool matrix_units = false;  // whether kernels made of mma.sync fragments (fragment.h) may be chosen
  bool hopper = false;        // compute capability 9.0: TMA, wgmma, programmatic dependent launch
};

// Returns the facts of device `index`; fails (unsupported), saying how many there are, where it does not
// exist.
Result<DeviceFacts> device_facts(int index);

// A stream that kernels are launched on. With `overlap` they are launched with programmatic dependent launch
// (PDL): a kernel may start before the previous one has finished, and waits for it by pdl_wait.
constexpr int kQueues = 3;
struct Queue {
  cudaStream_t stream = nullptr;
  bool overlap = false;
  int index = 0;  // below kQueues
};

// Launches a kernel, which has to call pdl_wait since it may start early. Clusters of `cluster` blocks, which
// divide grid.x, need compute capability 9.0.
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

// Lets a kernel use `bytes` of dynamic shared memory (above 48 KiB it has to be asked for), once per device
// and larger size.
void allow_shared(const void* kernel, size_t bytes);
template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}

}  // namespace fulmar::gpu
