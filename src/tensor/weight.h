// A weight matrix as a backend holds it, and as a file offers it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace fulmar {

// How the numbers of a Weight are stored. Quantised kinds join here, each with its block layout in a header
// of its own; only the `linear` primitives and the importers switch over the kind.
enum class WeightKind : uint8_t { f32, f16, bf16 };

// What a matrix is for. A backend may store some roles differently (transposed, padded, joined); the meaning
// of a Weight stays out = in @ matrix^T.
enum class WeightRole : uint8_t {
  embedding,   // [V, C], rows are gathered
  projection,  // att receptance, key, value, gate, output; ffn receptance
  ffn_key,     // [F, C]
  ffn_value,   // [C, F], its input is mostly zeros after relu²
  low_rank,    // small factors; kept in 16 bits or better whatever the quantisation
  head,        // [V, C]
};

// A linear map from `in` to `out` channels, in the memory of one backend.
struct Weight {
  WeightKind kind = WeightKind::f32;
  int64_t out = 0;
  int64_t in = 0;
  const void* data = nullptr;  // [out, in] row-major, or [in, out] when transposed
  bool transposed = false;

  bool empty() const { return data == nullptr; }
};

// A matrix in host memory before a backend imports it: element (i, j) lies at
// data + (i * row_stride + j * col_stride) * size_of(dtype).
struct HostMatrix {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;  // elements
  int64_t col_stride = 1;  // elements

  bool row_major() const { return col_stride == 1 && row_stride == cols; }
};

// Bytes one parameter takes.
constexpr size_t bytes_per_parameter(WeightKind kind) { return kind == WeightKind::f32 ? 4 : 2; }

}  // namespace fulmar
