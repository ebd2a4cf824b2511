// Tensor maps: descriptors of matrices for TMA.
#pragma once

#include <cuda.h>

#include "tensor/tensor.h"

namespace fulmar::gpu {

// Returns the map of a [matrix.rows, matrix.cols] f16 or bf16 matrix in boxes of `rows` rows by 64 columns,
// swizzled over 128 bytes; zeros beyond the matrix. data: a multiple of 16 bytes; stride: of 8 elements.
CUtensorMap tensor_map(const Tensor& matrix, int rows);

// A box, or an array without gaps, of bytes [planes, rows, bytes], not swizzled; zeros beyond the array. data
// and both `bytes` are multiples of 16, those of a box at most 2,048.
struct ByteBox {
  int64_t bytes, rows, planes;
};
CUtensorMap byte_map(const void* data, const ByteBox& array, const ByteBox& box);

}  // namespace fulmar::gpu
