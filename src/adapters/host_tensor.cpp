#include "adapters/host_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/convert.h"

namespace fulmar {

int64_t HostTensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<float> HostTensor::floats() const {
  std::vector<float> values(static_cast<size_t>(count()));
  to_f32(dtype, bytes.data(), values);
  return values;
}

StoredTensor HostTensor::stored(std::string name) const {
  return {std::move(name), dtype, shape, row_major_strides(shape), bytes.data()};
}

StoredTensor transposed(StoredTensor matrix) {
  std::swap(matrix.shape[0], matrix.shape[1]);
  std::swap(matrix.strides[0], matrix.strides[1]);
  return matrix;
}

HostTensor host_tensor(const std::vector<float>& values, std::vector<int64_t> shape, DType dtype) {
  HostTensor tensor{dtype, std::move(shape), std::vector<std::byte>(values.size() * size_of(dtype))};
  from_f32(values, dtype, tensor.bytes.data());
  return tensor;
}

Result<HostTensor> read_tensor(const StoredTensor& stored) {
  if (!is_float(stored.dtype) && !is_block(stored.dtype)) {
    return Error{ErrorKind::unsupported,
                 fmt::format("tensor '{}' has type {}; wanted floating-point numbers or GGUF's blocks",
                             stored.name, name_of(stored.dtype))};
  }
  std::vector<float> values(static_cast<size_t>(stored.count()));
  copy_as_f32(stored, values);
  const auto wrong = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (wrong != values.end()) {
    return Error{ErrorKind::corrupt, fmt::format("tensor '{}' holds {} at element {}; wanted finite numbers",
                                                 stored.name, *wrong, wrong - values.begin())};
  }
  if (is_kernel_float(stored.dtype)) return HostTensor{stored.dtype, stored.shape, gather_contiguous(stored)};
  return host_tensor(values, stored.shape, DType::f32);
}

}  // namespace fulmar
