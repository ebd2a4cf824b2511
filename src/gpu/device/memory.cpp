#include "gpu/device/memory.h"

#include <string>

#include "gpu/device/device.h"
#include "gpu/device/full_device.h"

namespace fulmar::gpu {

Result<Buffer> allocate_device(size_t bytes) {
  void* data = nullptr;
  const cudaError_t error =
      pretend_full ? cudaErrorMemoryAllocation : cudaMalloc(&data, bytes > 0 ? bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    forget_failure();
    size_t free = 0, total = 0;
    ignore_failure(cudaMemGetInfo(&free, &total));
    return Error{ErrorKind::resource, "cannot allocate " + std::to_string(bytes) + " bytes on the GPU; " +
                                          std::to_string(free) + " of " + std::to_string(total) +
                                          " are free"};
  }
  FULMAR_GPU(error);
  return Buffer(data, bytes, [](void* owned) { ignore_failure(cudaFree(owned)); });
}

Result<Buffer> allocate_pinned(size_t bytes) {
  void* data = nullptr;
  const cudaError_t error =
      pretend_full ? cudaErrorMemoryAllocation : cudaMallocHost(&data, bytes > 0 ? bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    forget_failure();
    return Error{ErrorKind::resource, "cannot allocate " + std::to_string(bytes) + " bytes of pinned memory"};
  }
  FULMAR_GPU(error);
  return Buffer(data, bytes, [](void* owned) { ignore_failure(cudaFreeHost(owned)); });
}

Result<void*> Arena::take(size_t bytes) {
  const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (padded > kArenaBlock / 4) {
    FULMAR_ASSIGN(Buffer own, allocate_device(padded));
    void* data = own.data();
    blocks_.insert(blocks_.begin(), std::move(own));  // the block being filled stays last
    return data;
  }
  if (blocks_.empty() || used_ + padded > kArenaBlock) {
    FULMAR_ASSIGN(Buffer block, allocate_device(kArenaBlock));
    blocks_.push_back(std::move(block));
    used_ = 0;
  }
  void* data = static_cast<std::byte*>(blocks_.back().data()) + used_;
  used_ += padded;
  return data;
}

}  // namespace fulmar::gpu
