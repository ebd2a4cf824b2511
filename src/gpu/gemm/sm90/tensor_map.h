// Descriptions of matrices for TMA (tensor maps).
#pragma once

#include <cuda.h>

#include "tensor/tensor.h"

namespace fulmar::gpu {

// Boxes of `rows` rows by 64 columns of a [matrix.rows, matrix.cols] f16 or bf16 matrix, swizzled over 128
// bytes; what lies outside comes as zeros. data is a multiple of 16, stride of 8 elements.
CUtensorMap tensor_map(const Tensor& matrix, int rows);

// Boxes of bytes [planes, rows, bytes] of an array without gaps, not swizzled; what lies outside comes as
// zeros. data and both `bytes` are multiples of 16, those of a box at most 2,048.
struct ByteBox {
  int64_t bytes, rows, planes;
};
CUtensorMap byte_map(const void* data, const ByteBox& array, const ByteBox& box);

}  // namespace fulmar::gpu
