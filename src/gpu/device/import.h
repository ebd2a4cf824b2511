// Converts and transposes matrices on the device, for import (import.cu).
#pragma once

#include "gpu/device/device.h"

namespace fulmar::gpu {

// Returns whether this program has code for the current device.
bool has_code_here();

// Copies [rows, cols] from source to target, element (i, j) at i * row_stride + j * col_stride (in elements)
// on either side, converting between f32, f16 and bf16. Sets *overflow to 1 where a finite number becomes too
// large.
void import_matrix(const Queue&, const void* source, DType from, int64_t rows, int64_t cols,
                   int64_t row_stride, int64_t col_stride, void* target, DType to, int64_t target_row_stride,
                   int64_t target_col_stride, uint32_t* overflow);

}  // namespace fulmar::gpu
