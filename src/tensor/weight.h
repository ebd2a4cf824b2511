// A weight matrix as a backend holds it, and as a file offers it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/format.h"

namespace fulmar {

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

// The order in which a matrix lies in a backend's memory. A backend chooses it once, at import.
enum class WeightLayout : uint8_t {
  rows,            // [out, in] row-major in whole blocks, as files store it
  columns,         // [in, out]
  float8_rows,     // rows of E4M3 codes that are multiplied by inputs rounded to FP8
  fragments,       // GPU: codes as operands of matrix instructions (gpu/gemm/layout/packed.h)
  packed_columns,  // GPU: the codes of one input together (gpu/gemm/layout/packed.h)
  tiles,           // CPU: the codes of eight outputs interleaved (cpu/interleaved.h)
  strips,          // CPU: 128 weights of one input together (cpu/transposed.h)
};

// A linear map from `in` to `out` channels, in the memory of one backend. Only the `linear` primitives and
// the importers distinguish formats and layouts.
struct Weight {
  DType dtype = DType::f32;
  int64_t out = 0;
  int64_t in = 0;
  const void* data = nullptr;
  WeightLayout layout = WeightLayout::rows;
  const float* scales = nullptr;  // [out, in / group] of formats with scales beside their codes
  int64_t group = 0;              // weights of a row that share a scale

  bool empty() const { return data == nullptr; }
  size_t bytes() const { return bytes_for(dtype, out * in); }
  // Returns whether each element is one 16-bit float. A kernel without loaders for other formats must ask
  // this first, and separately whether it can take weights by input.
  bool plain16() const { return dtype == DType::f16 || dtype == DType::bf16; }
  // Returns whether the weights of one input lie together, so that a kernel can skip those of a zero.
  bool by_input() const {
    return layout == WeightLayout::columns || layout == WeightLayout::packed_columns ||
           layout == WeightLayout::strips;
  }
};

// A matrix in host memory before a backend imports it. Element (i, j) of a plain format is at data + (i *
// row_stride + j * col_stride) * size_of(dtype); rows of blocks and of packed codes are contiguous
// (row_major).
struct HostMatrix {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;         // elements
  int64_t col_stride = 1;         // elements
  const float* scales = nullptr;  // as in Weight
  int64_t group = 0;

  bool row_major() const { return col_stride == 1 && row_stride == cols; }
};

}  // namespace fulmar
