// Device memory, and pinned host memory that the device maps.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

// Allocates `bytes` of device memory, or of pinned host memory that the device maps. The error names the
// bytes asked for and, for device memory, those free.
Result<Buffer> allocate_device(size_t bytes);
Result<Buffer> allocate_pinned(size_t bytes);

// A bump allocator for many small weights: memory is freed when the arena is destroyed.
class Arena {
 public:
  Result<void*> take(size_t bytes);

 private:
  static constexpr size_t kArenaBlock = size_t{64} << 20;
  static constexpr size_t kAlignment = 256;
  std::vector<Buffer> blocks_;
  size_t used_ = kArenaBlock;  // bytes of the last block
};

}  // namespace fulmar::gpu
