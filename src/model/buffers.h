// Activation tensors that live as long as a model: declared first, so that their size is known before
// anything is allocated, then placed in one block.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ops/ops.h"

namespace fulmar {

class Buffers {
 public:
  Buffers() = default;
  Buffers(const Buffers&) = delete;  // declared tensors are members of the same object
  Buffers& operator=(const Buffers&) = delete;

  // Declares a tensor: it gets its shape now, and its memory in place().
  void declare(Tensor& tensor, int64_t rows, int64_t cols, DType dtype);
  size_t bytes() const { return bytes_; }
  Status place(Ops& ops);

 private:
  struct Declared {
    Tensor* tensor;
    size_t offset;
  };
  std::vector<Declared> pieces_;
  size_t bytes_ = 0;
  Buffer memory_;
};

}  // namespace fulmar
