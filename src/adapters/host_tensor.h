// The numbers of an adapter in host memory, which it owns. Knows nothing of what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"
#include "tensor/format.h"

namespace fulmar {

// Row-major without gaps, as f32, f16 or bf16.
struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;  // outermost first
  std::vector<std::byte> bytes;

  bool empty() const { return shape.empty(); }
  int64_t count() const;
  // Returns all elements, widened.
  std::vector<float> floats() const;
  // Returns a view under that name, which lives as long as this.
  StoredTensor stored(std::string name) const;
};

// Returns the view of a matrix with its axes exchanged.
StoredTensor transposed(StoredTensor matrix);

// Copies a tensor of a file. f32, f16 and bf16 keep their bits; f64 and block formats become f32. Errors name
// the tensor: corrupt, for NaN and infinity; unsupported, for integers and codes without their scales.
Result<HostTensor> read_tensor(const StoredTensor& stored);

// Rounds numbers to one of the three types.
HostTensor host_tensor(const std::vector<float>& values, std::vector<int64_t> shape, DType dtype);

}  // namespace fulmar
