// Views and owners of numbers in a backend's memory. A view never owns; a Buffer always does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "tensor/format.h"

namespace fulmar {

// A row-major matrix [rows, cols] in the memory of the backend that made it (host or device). A vector has
// one row. `stride` is the distance between rows in elements and at least cols.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  bool empty() const { return data == nullptr; }
  int64_t count() const { return rows * cols; }
  bool contiguous() const { return stride == cols || rows <= 1; }

  // Returns the elements as T, which must be the type that dtype stands for (uint16_t for f16 and bf16).
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  template <class T>
  T* row(int64_t index) const {
    return static_cast<T*>(data) + index * stride;
  }

  // Returns rows [first, first + count_rows) of this matrix.
  Tensor slice_rows(int64_t first, int64_t count_rows) const {
    return {static_cast<std::byte*>(data) + static_cast<size_t>(first * stride) * size_of(dtype), dtype,
            count_rows, cols, stride};
  }
  // Returns columns [first, first + count_cols) of this matrix.
  Tensor slice_cols(int64_t first, int64_t count_cols) const {
    return {static_cast<std::byte*>(data) + static_cast<size_t>(first) * size_of(dtype), dtype, rows,
            count_cols, stride};
  }
};

// Owns bytes that a backend allocated; returns them to it on destruction.
class Buffer {
 public:
  using Release = std::function<void(void*)>;

  Buffer() = default;
  Buffer(void* data, size_t bytes, Release release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr && release_) release_(data_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Returns the first rows * cols elements as a matrix.
  Tensor matrix(DType dtype, int64_t rows, int64_t cols) const { return {data_, dtype, rows, cols, cols}; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Release release_;
};

}  // namespace fulmar
