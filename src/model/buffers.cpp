#include "model/buffers.h"

namespace fulmar {

void Buffers::declare(Tensor& tensor, int64_t rows, int64_t cols, DType dtype) {
  constexpr size_t kAlignment = 256;  // enough for any backend's vector loads
  tensor = {nullptr, dtype, rows, cols, cols};
  pieces_.push_back({&tensor, bytes_});
  const size_t bytes = static_cast<size_t>(rows * cols) * size_of(dtype);
  bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Status Buffers::place(Ops& ops) {
  FULMAR_ASSIGN(memory_, ops.allocate(bytes_));
  for (const Declared& piece : pieces_) {
    piece.tensor->data = static_cast<std::byte*>(memory_.data()) + piece.offset;
  }
  return {};
}

}  // namespace fulmar
