// Memory of one GPU, and host memory that it reads and writes by itself.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

// Device memory, or host memory that the device reads and writes by itself, for `bytes`; or an error that
// names the number and, for a device, what is free.
Result<Buffer> allocate_device(size_t bytes);
Result<Buffer> allocate_pinned(size_t bytes);

// Many small weights in few allocations; nothing is given back before the arena goes.
class Arena {
 public:
  Result<void*> take(size_t bytes);

 private:
  static constexpr size_t kArenaBlock = size_t{64} << 20;
  static constexpr size_t kAlignment = 256;
  std::vector<Buffer> blocks_;
  size_t used_ = kArenaBlock;  // of the last block
};

}  // namespace fulmar::gpu
