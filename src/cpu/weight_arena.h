// Memory for the weights that a CPU backend holds itself: in huge pages where the system has them, since
// page-table walks cost products that skip over memory up to half of their time.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace fulmar {

class WeightArena {
 public:
  // Returns uninitialised memory, 64-byte aligned, valid as long as the arena; an error of
  // kind resource where there is none.
  Result<std::byte*> take(size_t bytes);

 private:
  std::vector<Buffer> chunks_;
  std::byte* at_ = nullptr;
  size_t left_ = 0;
};

}  // namespace fulmar
